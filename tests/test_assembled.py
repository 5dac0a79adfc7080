"""``benchmarks/assembled.py``: kernels that a test compiles are kept without a GPU, and what the table says of them."""
from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
assembled = pytest.importorskip("assembled")

SCRIPT = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def product(n, dtype):
    @T.prim_func
    def square(A: T.Tensor((n, n), dtype), B: T.Tensor((n, n), dtype), C: T.Tensor((n, n), "float32")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(n, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), dtype)
            b = T.alloc_shared((64, 64), dtype)
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(n, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 64, bx * 64])

    return square


def test_products():
    assert torch.cuda.get_device_capability() == (9, 0)
    a = torch.randn((1 << 20, 1 << 20), device="cuda").half()  # of no size in memory
    for dtype in ("float16", "float8_e4m3fn", "float16"):
        made = product(1 << 20, dtype)(a, a)
        assert made.shape == (1 << 20, 1 << 20)
    torch.testing.assert_close(made, a.float())
"""


def test_kernels_of_a_test_are_kept_for_each_chip(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "test_products.py"
    script.write_text(SCRIPT)
    assert assembled.capture(script, tmp_path / "kept", ["sm_90a", "sm_80"], None) == ""
    assert not (tmp_path / "kept" / "stopped.jsonl").exists()
    found = assembled.entries(tmp_path / "kept")
    assert [(e["kernel"], e["number"], e["arch"], "file" in e) for e in found] == [
        ("square", 0, "sm_90a", True), ("square", 0, "sm_80", True), ("square", 1, "sm_90a", True), ("square", 1, "sm_80", False)]
    assert "wgmma" in (tmp_path / "kept" / found[0]["file"]).read_text()
    refused = assembled.assemble(tmp_path / "kept", found[3], None)
    assert refused["diagnostic"] and "test_products.py:" in refused["refused"] and "FP8" in refused["refused"]


def test_the_table_tells_rejections_and_spills(capsys):
    good = {"registers": 168, "spill": 0, "stack": 0, "shared": 49152}
    rows = {("test_a.py", "one", 0, "sm_80"): {"ours": {**good, "spill": 8}, "peer": good},
            ("test_a.py", "one", 1, "sm_80"): {"ours": {"rejected": "error: unknown"}, "peer": {**good, "spill": 16}},
            ("test_a.py", "two", 0, "sm_80"): {"ours": {"refused": "file.py:3: no such unit"}, "peer": None}}
    assert assembled.report(rows, True) == 1
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[1].endswith(" <") and "a: one (2)" in lines[2] and "REJECTED" in lines[2]
    assert "file.py:3: no such unit" in text and "1 kernels spill more than TileLang's" in text
    assert "sm_80    ours: 1 of 3 assembled, 1 refused, 1 rejected; 1 spill (8 bytes)" in text
    json.dumps(list(rows.values()))
