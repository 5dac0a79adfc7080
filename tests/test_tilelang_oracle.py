"""Comparing with the user's own TileLang: a process of the interpreter that was found runs the kernel, and every failure says why."""
from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tile_lsp.workers.process import Child

ROOT = Path(__file__).resolve().parents[1]
# Stands in for an installed TileLang: this compiler's own modules under that name, on the CPU.
STAND_IN = '''import sys
sys.modules.pop("tilelang")
from tilec.served import install
install()
import tilelang
tilelang.__version__ = "0.1.15"
'''
KERNEL = '''import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1], target="cpu")
def double(N, factor=2.0):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * factor

    return kernel


double(1024)
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose .venv has a Python with that TileLang."""
    pytest.importorskip("tvm", reason="running on the CPU needs the extra compile")
    pytest.importorskip("torch", reason="running needs the extra run")
    site = tmp_path / ".venv" / "lib" / "python3.11" / "site-packages"
    (site / "tilelang" / "language").mkdir(parents=True)
    (site / "tilelang" / "__init__.py").write_text(STAND_IN)
    info = site / "tilelang-0.1.15.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: tilelang\nVersion: 0.1.15\n\n")
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:{ROOT}:{ROOT / "compiler"}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


def run(folder: Path, text: str, **more) -> dict:
    async def ask() -> dict:
        child = Child()
        try:
            return await child.request({"kind": "run", "path": str(folder / "a.py"), "text": text, "kernel": "double", "target": "cpu", "against": "tilelang",
                                        "details": True, "repeat": 3, "warmup": 1, **more}, 120.0)
        finally:
            await child.end()

    return asyncio.run(ask())


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_the_same_result_as_tilelang(project):
    found = run(project, KERNEL)
    assert found["ok"] is True, found["error"]
    assert found["against"].startswith("TileLang 0.1.15 (") and found["max_abs_err"] == 0.0


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_what_tilelang_says_is_the_answer(project):
    python = project / ".venv" / "bin" / "python"
    python.write_text(python.read_text().replace('exec "', 'TILE_FAIL=1 exec "'))
    (project / ".venv" / "lib" / "python3.11" / "site-packages" / "tilelang" / "__init__.py").write_text('raise RuntimeError("no such GPU")\n')
    found = run(project, KERNEL)
    assert found["ok"] is False and "no such GPU" in found["error"] and "Traceback" not in found["error"]


def test_without_a_tilelang(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="running needs the extra run")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    found = run(tmp_path, KERNEL)
    assert found["ok"] is False and "no TileLang is installed" in found["error"]


def test_a_chosen_interpreter_without_tilelang_is_named(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="running needs the extra run")
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    found = run(tmp_path, KERNEL, interpreter="/usr/bin/python3")
    assert found["ok"] is False and "neither in the chosen interpreter (/usr/bin/python3)" in found["error"]


# -- the real TileLang -----------------------------------------------------------------------------------------------------------
REAL = os.environ.get("TILELANG_PYTHON", "")  # an interpreter that has it
needs_real = pytest.mark.skipif(not REAL, reason="TILELANG_PYTHON names no interpreter with TileLang")
FOR_THE_CPU = KERNEL.replace('target="cpu"', 'target="c"').replace(", threads=128) as bx", ") as bx").replace("T.Parallel(128)", "T.serial(128)")


@needs_real
def test_the_real_tilelang_on_the_cpu(tmp_path):
    found = run(tmp_path, FOR_THE_CPU, interpreter=REAL)
    assert found["ok"] is True, found["error"]
    assert found["against"].startswith("TileLang 0.1.") and "ms)" in found["against"] and found["max_abs_err"] == 0.0


@needs_real
def test_the_real_tilelang_gets_the_text_of_the_editor(tmp_path):
    """Nothing was saved: the file has something else."""
    (tmp_path / "a.py").write_text("raise SystemExit('the file was read')")
    found = run(tmp_path, FOR_THE_CPU.replace("factor=2.0", "factor=3.0"), interpreter=REAL)
    assert found["ok"] is True and found["max_abs_err"] == 0.0, found["error"]


@needs_real
def test_without_a_gpu_the_real_tilelang_says_so(tmp_path):
    import subprocess

    sees = subprocess.run([REAL, "-c", "import torch; print(torch.cuda.is_available())"], capture_output=True, text=True, check=True).stdout
    if "True" in sees:
        pytest.skip("there is a GPU")
    found = run(tmp_path, KERNEL.replace(', target="cpu"', ""), interpreter=REAL)
    assert found["ok"] is False and "finds no GPU here" in found["error"] and 'target="c"' in found["error"] and "Traceback" not in found["error"]
