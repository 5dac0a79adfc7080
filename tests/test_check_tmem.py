"""Tensor memory rules against what TileLang 0.1.15 allocates (numbers read off its generated CUDA)."""

from __future__ import annotations

import pytest
from tilec.check import check_program
from tilec.check.facts import Facts
from tilec.check.rules.tmem_columns import allocation, columns, plan
from tilec.check.settings import Settings
from tilec.evaluate import analyse, instantiate
from tilec.ir.buffer import TMEM, Buffer
from tilec.ir.build import const
from tilec.source.file import SourceFile
from tilec.target.chips import find

KERNEL = """import tilelang
import tilelang.language as T

@tilelang.jit
def mm(M=128, N=48, dtype="bfloat16"):
    @T.prim_func
    def main(A: T.Tensor((M, 64), dtype), B: T.Tensor((N, 64), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 64), dtype)
            b = T.alloc_shared((N, 64), dtype)
            acc = T.alloc_tmem([M, N], "float32")
            done = T.alloc_barrier(1)
            out = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.tcgen05_gemm(a, b, acc, transpose_B=True, mbar=done, clear_accum=True)
            T.mbarrier_wait_parity(done, 0)
            T.copy(acc, out)
            T.copy(out, C)
    return main
"""


def diagnostics(text: str = KERNEL, target: str = "sm_100a", instance: str = "", settings: Settings | None = None):
    analysis = analyse(SourceFile("k.py", text), instances=(instance,) if instance else ())
    kernel = analysis.kernels[0]
    return check_program(instantiate(analysis, kernel, kernel.instances[0]), find(target), settings=settings)


def tmem(rows: int, width: int, dtype: str = "float32") -> Buffer:
    return Buffer("t", (const(rows), const(width)), dtype, TMEM)


@pytest.mark.parametrize(("need", "size"), [(4, 32), (16, 32), (32, 32), (48, 64), (96, 128), (384, 512), (512, 512)])
def test_allocation_sizes(need: int, size: int) -> None:
    assert allocation(need) == size


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "count"),
    [
        (128, 48, "float32", 48),
        (256, 128, "float32", 256),
        (64, 128, "float32", 64),
        (32, 256, "float32", 64),
        (128, 128, "float16", 128),
    ],
)
def test_accumulator_columns(rows: int, width: int, dtype: str, count: int) -> None:
    assert columns(tmem(rows, width, dtype), laid_out=True, accumulates=True) == count


def test_packing() -> None:
    wide, slim, equal = tmem(128, 384), tmem(128, 128), tmem(128, 256)
    assert [a.size for a in plan({wide: 384, slim: 128}, set())] == [512]
    assert [a.size for a in plan({equal: 256, slim: 256}, set())] == [256, 256]
    assert sorted(a.size for a in plan({wide: 384, slim: 128}, {slim})) == [128, 512]


@pytest.mark.parametrize(("width", "reserved", "wasted"), [(48, 64, 16), (16, 32, 16), (96, 128, 32), (384, 512, 128)])
def test_wasteful_width(width: int, reserved: int, wasted: int) -> None:
    found = diagnostics(instance=f"mm(128, {width})")
    (only,) = [d for d in found if d.name == "tmem-columns"]
    assert only.severity == "warning"
    assert only.span.line == 11
    for word in ("power of two", "32", f"{reserved} columns are reserved", f"{wasted} of them wasted"):
        assert word in only.message


def test_wasteful_width_as_error() -> None:
    found = diagnostics(settings=Settings(severities={"tmem-columns": "error"}))
    assert [(d.name, d.severity) for d in found] == [("tmem-columns", "error")]


def test_no_waste_after_packing_is_information() -> None:
    text = KERNEL.replace(
        "            done =", '            rest = T.alloc_tmem([M, 16], "float32")\n            done ='
    ).replace(
        "            T.copy(acc",
        "            T.tcgen05_gemm(a, b[0:16, :], rest, transpose_B=True, mbar=done, clear_accum=True)\n"
        "            T.copy(acc",
    )
    found = [d for d in diagnostics(text) if d.name == "tmem-columns"]
    assert {d.severity for d in found} == {"information"}
    assert len(found) == 2


@pytest.mark.parametrize("width", [64, 128, 256])
def test_good_width_is_silent(width: int) -> None:
    assert diagnostics(instance=f"mm(128, {width})") == []


def test_too_wide() -> None:
    assert [(d.name, d.severity) for d in diagnostics(instance="mm(128, 640)") if d.severity == "error"] == [
        ("tmem-capacity", "error")
    ]


def test_impossible_rows() -> None:
    assert [d.name for d in diagnostics(instance="mm(100, 64)") if d.severity == "error"] == ["tcgen05-shape"]


def test_target_without_tensor_memory() -> None:
    found = [d for d in diagnostics(target="sm_90a", instance="mm(128, 64)") if d.severity == "error"]
    assert [(d.name, d.span.line) for d in found] == [("tmem-target", 11)]


def test_unknown_width_is_silent() -> None:
    assert diagnostics(KERNEL.replace("M=128, N=48", "N, M=128")) == []


def test_facts_know_the_accumulator() -> None:
    analysis = analyse(SourceFile("k.py", KERNEL))
    kernel = analysis.kernels[0]
    facts = Facts.of(instantiate(analysis, kernel, kernel.instances[0]))
    (acc,) = facts.allocations(TMEM)
    assert {(a.argument, a.kind) for a in facts.uses[acc]} == {("C", "read"), ("C", "write"), ("src", "read")}
