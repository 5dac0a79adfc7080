"""``tile-lsp lower``: stages as text, and what cannot be shown."""
from __future__ import annotations

from pathlib import Path

import pytest

from tile_lsp.cli.main import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GEMM = str(EXAMPLES / "gemm.py")


def lower(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["lower", *arguments])
    return (code, *capsys.readouterr())


def test_the_thread_program_names_what_it_calls(capsys) -> None:
    code, out, _ = lower(capsys, GEMM, "--stage", "thread", "--target", "sm_90a")
    assert code == 0 and "device_function" not in out
    assert "tile_prefetch_map(A_map)" in out and "tile_tma_load_2d(T.address_of(A_shared[" in out and "tile_wgmma_m64n128k16_f16_f16_f32" in out


@pytest.mark.parametrize("stage", ["cuda", "ptx", "sass", "nothing"])
def test_the_cpu_has_no_such_stage(capsys, stage: str) -> None:
    code, out, err = lower(capsys, GEMM, "--stage", stage, "--target", "cpu")
    assert (code, out) == (2, "") and err == f"tile-lsp: there is no stage {stage!r} for cpu; stages: tile, legalized, thread, host, device\n"


def test_without_a_stage(capsys) -> None:
    pytest.importorskip("tvm")
    assert "__global__" in lower(capsys, GEMM, "--target", "sm_80")[1]
    assert "gemm_loops" in lower(capsys, GEMM, "--target", "cpu")[1]
