"""Loops over a part of a fragment, moved by an offset: run by the threads that hold the elements where those can be told, else exchanged; right both ways."""
from __future__ import annotations

import numpy as np
import pytest
from tilec.ir.stmt import Alloc, walk
from transform_support import execute, lowered, prim

SIGNATURE = "A: T.Tensor((32, 32), 'float16'), B: T.Tensor((64, 32), 'float16'), C: T.Tensor((32, 64), 'float32')"


def kernel(loop: str):
    return prim(SIGNATURE, """
with T.Kernel(1, threads=128) as bx:
    a = T.alloc_shared((32, 32), 'float16')
    b = T.alloc_shared((64, 32), 'float16')
    c = T.alloc_fragment((32, 64), 'float32')
    part = T.alloc_shared((32, 64), 'float32')
    T.copy(A, a)
    T.copy(B, b)
    T.clear(c)
    T.gemm(a, b, c, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
""" + "\n".join("    " + line for line in loop.strip("\n").splitlines()) + "\n")


HALVES = """
for s in range(2):
    for i, j in T.Parallel(32, 64):
        if i < 16:
            part[i, j] = c[i + s * 16, j]
    for i, j in T.Parallel(16, 64):
        C[i + s * 16, j] = part[i, j]
"""
PARTS = """
for s in range(2):
    for i, j in T.Parallel(16, 64):
        C[i + s * 16, j] = c[s * 16 + i, j]
"""
EIGHTS = """
for s in range(4):
    for i, j in T.Parallel(8, 64):
        C[i + s * 8, j] = c[i + s * 8, j]
"""
FOURS = """
for s in range(8):
    for i, j in T.Parallel(4, 64):
        C[i + s * 4, j] = c[i + s * 4, j]
"""
BACKWARDS = """
for i, j in T.Parallel(16, 64):
    c[i + 16, j] = c[i, j] + 1.0
for s in range(2):
    for i, j in T.Parallel(16, 64):
        C[i + s * 16, j] = c[i + s * 16, j]
"""
COLUMNS = """
for s in range(2):
    for i, j in T.Parallel(32, 32):
        C[i, j + 32 * s] = c[i, j + 32 * s]
"""


def exchanged(program):
    return [s.buffer.name for s in walk(program.body) if isinstance(s, Alloc) and "_exchange" in s.buffer.name]


@pytest.mark.parametrize(("loop", "direct"), [(HALVES, True), (PARTS, True), (EIGHTS, True), (FOURS, False), (BACKWARDS, True), (COLUMNS, False)],
                         ids=["halves", "parts", "eights", "fours", "backwards", "columns"])
def test_moved_reads_and_writes(loop, direct):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (32, 32)), rng.integers(-3, 4, (64, 32))
    made = lowered(kernel(loop))
    expected = (a @ b.T).astype(np.float32)
    if loop is BACKWARDS:
        expected[16:] = expected[:16] + 1
    assert bool(exchanged(made)) is not direct
    assert np.array_equal(execute(made, A=a.astype(np.float16), B=b.astype(np.float16))["C"], expected)
