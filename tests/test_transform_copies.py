"""Copies, fills and element-wise loops, run thread by thread."""
from __future__ import annotations

import numpy as np
import pytest
from transform_support import execute, lowered, numbers, prim, rounded, run, text_of


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32", "float64", "bool"])
@pytest.mark.parametrize("threads", [32, 64])
def test_addition_of_tiles_with_a_tail(dtype, threads):
    a, b = numbers((150,), dtype if dtype != "bool" else "uint8"), numbers((150,), dtype if dtype != "bool" else "uint8", 1)
    if dtype == "bool":
        a, b = a > 3, b > 3
    op = "+" if dtype != "bool" else "|"
    out = run(f"A: T.Tensor((150,), '{dtype}'), B: T.Tensor((150,), '{dtype}'), C: T.Tensor((150,), '{dtype}')", f"""
    with T.Kernel(T.ceildiv(150, 64), threads={threads}) as bx:
        for i in T.Parallel(64):
            C[bx * 64 + i] = A[bx * 64 + i] {op} B[bx * 64 + i]
    """, A=a, B=b)
    want = a | b if dtype == "bool" else rounded(a + b, dtype) if dtype == "bfloat16" else (a + b).astype(dtype)
    np.testing.assert_array_equal(out["C"], want)


@pytest.mark.parametrize("shape, tile", [((64, 64), (32, 32)), ((50, 36), (32, 16)), ((33, 7), (8, 8)), ((5, 5), (16, 16))])
@pytest.mark.parametrize("through", ["shared", "fragment", "both"])
def test_copies_with_tails_through_every_memory(shape, tile, through):
    m, n = shape
    p, q = tile
    steps = {"shared": "T.copy(A[by * {p}, bx * {q}], s)\n        T.copy(s, B[by * {p}, bx * {q}])",
             "fragment": "T.copy(A[by * {p}, bx * {q}], f)\n        T.copy(f, B[by * {p}, bx * {q}])",
             "both": "T.copy(A[by * {p}, bx * {q}], s)\n        T.copy(s, f)\n        T.copy(f, g)\n        T.copy(g, s)\n"
                     "        T.copy(s, B[by * {p}, bx * {q}])"}
    out = run(f"A: T.Tensor(({m}, {n}), 'float16'), B: T.Tensor(({m}, {n}), 'float32')", f"""
    with T.Kernel(T.ceildiv({n}, {q}), T.ceildiv({m}, {p}), threads=64) as (bx, by):
        s = T.alloc_shared(({p}, {q}), 'float16')
        f = T.alloc_fragment(({p}, {q}), 'float16')
        g = T.alloc_fragment(({p}, {q}), 'float32')
        {steps[through].format(p=p, q=q)}
    """, A=numbers(shape, "float16"))
    np.testing.assert_array_equal(out["B"], numbers(shape, "float16").astype(np.float32))


def test_copies_are_wide_where_everything_divides():
    program = lowered(prim("A: T.Tensor((64, 64), 'float16'), B: T.Tensor((64, 64), 'float16')", """
    with T.Kernel(2, 2, threads=64) as (bx, by):
        s = T.alloc_shared((32, 32), 'float16')
        T.copy(A[by * 32, bx * 32], s)
        T.copy(s, B[by * 32, bx * 32])
    """))
    assert text_of(program).count("T.vectorized(8)") == 2 and "if " not in text_of(program)


def test_tail_reads_zero_and_safe_values():
    out = run("A: T.Tensor((20,), 'float32'), B: T.Tensor((32,), 'float32'), C: T.Tensor((32,), 'float32')", """
    with T.Kernel(1, threads=32) as bx:
        s = T.alloc_shared((32,), 'float32')
        T.copy(A[0:32], s)
        T.copy(s, B)
        for i in T.Parallel(32):
            C[i] = A[i] + 1.0
    """, A=np.ones(20, np.float32))
    np.testing.assert_array_equal(out["B"], [1.0] * 20 + [0.0] * 12)
    np.testing.assert_array_equal(out["C"], [2.0] * 20 + [1.0] * 12)


def test_rank_mismatch_takes_the_dimensions_that_are_not_one():
    a = numbers((3, 16, 32), "float32")
    out = run("A: T.Tensor((3, 16, 32), 'float32'), B: T.Tensor((3, 16, 32), 'float32')", """
    with T.Kernel(3, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        T.copy(A[b, 0:16, 0:32], s)
        T.copy(s, B[b, 0:16, 0:32])
    """, A=a)
    np.testing.assert_array_equal(out["B"], a)


def test_transpose_through_shared_memory():
    a = numbers((32, 48), "float16")
    out = run("A: T.Tensor((32, 48), 'float16'), B: T.Tensor((48, 32), 'float16')", """
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((32, 48), 'float16')
        t = T.alloc_shared((48, 32), 'float16')
        T.copy(A, s)
        T.transpose(s, t)
        T.copy(t, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], a.T)


def test_transposing_loops_over_fragments_exchange_through_shared_memory():
    a = numbers((16, 32), "float32")
    program = lowered(prim("A: T.Tensor((16, 32), 'float32'), B: T.Tensor((32, 16), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        f = T.alloc_fragment((16, 32), 'float32')
        g = T.alloc_fragment((32, 16), 'float32')
        T.copy(A, f)
        T.clear(g)
        for i, j in T.Parallel(32, 16):
            g[i, j] = g[i, j] + f[j, i]
        T.copy(g, B)
    """))
    from transform_support import execute

    np.testing.assert_array_equal(execute(program, A=a)["B"], a.T)


def test_broadcasts_and_casts():
    a, r, c = numbers((24, 40), "float16"), numbers((24,), "float32", 1), numbers((40,), "float32", 2)
    out = run("A: T.Tensor((24, 40), 'float16'), R: T.Tensor((24,), 'float32'), C: T.Tensor((40,), 'float32'), B: T.Tensor((24, 40), 'float16')", """
    with T.Kernel(1, threads=64) as b:
        f = T.alloc_fragment((24, 40), 'float32')
        rows = T.alloc_fragment((24,), 'float32')
        columns = T.alloc_fragment((40,), 'float32')
        T.copy(A, f)
        T.copy(R, rows)
        T.copy(C, columns)
        for i, j in T.Parallel(24, 40):
            f[i, j] = f[i, j] * rows[i] + columns[j]
        T.copy(f, B)
    """, A=a, R=r, C=c)
    np.testing.assert_allclose(out["B"], (a.astype(np.float32) * r[:, None] + c).astype(np.float16), rtol=1e-3)


def test_fill_of_a_part_and_of_everything():
    out = run("B: T.Tensor((16, 32), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        T.fill(s, 3.0)
        T.clear(s[4:8, 0:16])
        T.copy(s, B)
    """)
    want = np.full((16, 32), 3.0, np.float32)
    want[4:8, :16] = 0
    np.testing.assert_array_equal(out["B"], want)


def test_conditions_lets_and_inner_loops():
    a = numbers((64,), "int32")
    out = run("A: T.Tensor((64,), 'int32'), B: T.Tensor((64,), 'int32')", """
    with T.Kernel(2, threads=32) as b:
        for i in T.Parallel(32):
            x = A[b * 32 + i]
            if x > 2:
                B[b * 32 + i] = x * 2
            else:
                B[b * 32 + i] = T.if_then_else(x < -2, 0 - x, 7)
    """, A=a)
    np.testing.assert_array_equal(out["B"], np.where(a > 2, a * 2, np.where(a < -2, -a, 7)))


def test_dynamic_extents_are_guarded():
    a = numbers((45,), "float32")
    out = run("A: T.Tensor((T.dynamic('n'),), 'float32'), B: T.Tensor((T.dynamic('n'),), 'float32')", """
    with T.Kernel(T.ceildiv(A.shape[0], 32), threads=32) as b:
        for i in T.Parallel(32):
            B[b * 32 + i] = A[b * 32 + i] * 2.0
    """, A=a, B=np.zeros_like(a))
    np.testing.assert_array_equal(out["B"], a * 2)


@pytest.mark.parametrize("panel", [1, 2, 3, 10])
@pytest.mark.parametrize("order", ["row", "column"])
def test_every_block_runs_once_under_a_rasterisation(panel, order):
    out = run("B: T.Tensor((5, 7), 'int32')", f"""
    with T.Kernel(7, 5, threads=32) as (bx, by):
        T.use_swizzle({panel}, order='{order}')
        for i in T.Parallel(1):
            B[by, bx] = by * 7 + bx
    """)
    np.testing.assert_array_equal(out["B"], np.arange(35).reshape(5, 7))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_tensor_in_another_shape_has_edges_of_its_own(target):
    """A tile that is wider than the rows reads zeros beside them and stores nothing there; both copies are wide."""
    a = numbers((4, 4, 24), "float16")
    program = lowered(prim("A: T.Tensor((4, 4, 24), 'float16'), B: T.Tensor((16, 32), 'float16'), C: T.Tensor((2, 8, 24), 'float16')", """
    with T.Kernel(1, threads=32) as bx:
        flat = T.Tensor((16, 24), 'float16', A.data)
        out = T.Tensor((16, 24), 'float16', C.data)
        tile = T.alloc_shared((16, 32), 'float16')
        T.copy(flat[0, 0], tile)
        T.copy(tile, B)
        T.copy(tile, out[0, 0])
    """), target)
    found = execute(program, A=a, B=np.ones((16, 32), np.float16), C=np.zeros((2, 8, 24), np.float16))
    np.testing.assert_array_equal(found["B"], np.pad(a.reshape(16, 24), ((0, 0), (0, 8))))
    np.testing.assert_array_equal(found["C"], a.reshape(2, 8, 24))
    assert "vectorized" in text_of(program)
