"""Assignments in kernels have Python's order: the right-hand side is read once, before the first target is written."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

from emit_support import on_cpu, program  # noqa: E402

MACROS = """
@T.macro
def swap(y: T.Ref, z: T.Ref):
    t = y
    y = z
    z = t


@T.macro
def step(y: T.Ref, z: T.Ref, k):
    y += z * k
    z = y = z + 1
    y, z = z, y


@T.prim_func
def main(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
"""


def results(body: str) -> tuple[list[int], list[int]]:
    lines = "".join("        " + line + "\n" for line in body.strip("\n").splitlines())
    a, b = torch.arange(32, dtype=torch.int32), torch.arange(32, dtype=torch.int32) * 7
    on_cpu(program(MACROS + lines))(a, b)
    return a.tolist(), b.tolist()


def stepped(y: int, z: int, k: int) -> tuple[int, int]:
    y += z * k
    z = y = z + 1
    return z, y


def test_references_are_assigned_references() -> None:
    assert results("swap(A[tx], B[tx])") == ([7 * i for i in range(32)], list(range(32)))


def test_references_in_chains_and_tuples() -> None:
    a, b = results("step(A[tx], B[tx], 2)\nstep(B[tx], A[tx], 3)")
    for i in range(32):
        p, q = stepped(i, 7 * i, 2)
        q, p = stepped(q, p, 3)
        assert (a[i], b[i]) == (p, q)


def test_a_chain_reads_its_value_once() -> None:
    wanted = [8 * i + 1 for i in range(32)]
    assert results("A[tx] = B[tx] = A[tx] + B[tx] + 1") == (wanted, wanted)


def test_a_chain_with_a_variable() -> None:
    a, b = results("""
v = T.alloc_var("int32")
v = B[tx]
v = A[tx] = v + A[tx]
B[tx] = v
""")
    assert a == b == [8 * i for i in range(32)]
