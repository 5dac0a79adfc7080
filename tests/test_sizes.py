"""Run-time extents taken for multiples of 16 bytes, and the version of a kernel for all others."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import prim
from tilec.pipeline import compile_program
from tilec.target.chips import find
from tilec.transform.sizes import hold, row_lengths
from transform_support import execute, numbers

MATMUL = ("A: T.Tensor((T.dynamic('m'), T.dynamic('k')), 'float16'), B: T.Tensor((T.dynamic('k'), T.dynamic('n')), 'float16'), C: T.Tensor((T.dynamic('m'), T.dynamic('n')), 'float16')", """
    m, k = A.shape
    n = B.shape[1]
    with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 32), 'float16')
        b = T.alloc_shared((32, 64), 'float16')
        c = T.alloc_fragment((64, 64), 'float32')
        T.clear(c)
        for ko in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
            T.copy(A[by * 64, ko * 32], a)
            T.copy(B[ko * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 64, bx * 64])
    """)


def test_rows_of_parameters_are_assumed_to_be_whole_pieces():
    made = compile_program(prim(*MATMUL), find("sm_90a"))
    names = {var.name: factor for var, factor in made.assumed.items()}
    assert names == {"k": 8, "n": 8}, "not the number of rows"
    assert "cp.async.bulk.tensor" in made.text("cuda") and any("multiples" in note for note in made.notes)
    general = made.general()
    assert not general.assumed and general is made.general()
    assert "cp.async.bulk.tensor" not in general.text("cuda") and not any("multiples" in note for note in general.notes)


def test_a_program_whose_lowering_needs_no_assumption_has_one_version():
    made = compile_program(prim("A: T.Tensor((T.dynamic('n'),), 'float32')", """
    with T.Kernel(T.ceildiv(A.shape[0], 32), threads=32) as bx:
        for i in T.Parallel(32):
            A[bx * 32 + i] = 1.0
    """), find("sm_80"))
    assert not made.assumed and made.general() is made


@pytest.mark.parametrize("k, n, fits", [(72, 88, True), (70, 88, False), (72, 81, False)])
def test_both_versions_compute_the_same(k, n, fits):
    program = prim(*MATMUL)
    made = compile_program(program, find("sm_80"))
    values = {var: {"k": k, "n": n}[var.name] for var in made.assumed}
    assert hold(made.assumed, values) is fits
    a, b = numbers((70, k), "float16"), numbers((k, n), "float16", 1)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    for version in ([made, made.general()] if fits else [made.general()]):
        out = execute(version.thread_program, A=a, B=b, C=np.zeros((70, n), np.float16))
        np.testing.assert_allclose(out["C"].astype(np.float32), wanted, rtol=2e-3)


def test_pieces_are_16_bytes_of_each_type():
    program = prim("A: T.Tensor((4, T.dynamic('a')), 'float8_e4m3fn'), B: T.Tensor((4, T.dynamic('b')), 'float32'), C: T.Tensor((T.dynamic('c'), 16), 'float32')", """
    with T.Kernel(1, threads=32) as bx:
        B[0, 0] = 1.0
    """)
    assert {var.name: factor for var, factor in row_lengths(program).items()} == {"a": 16, "b": 4}
