"""Fragment layouts of matrix operands: bijections, and the PTX ISA's fragment tables by enumeration."""

from __future__ import annotations

import itertools

import pytest
from matrix_programs import gemm_op
from matrix_semantics import K_OF, a_position, b_position, c_position
from tilec.target.chips import find
from tilec.transform.matrix.instruction import plan, select_mma
from tilec.transform.matrix.layouts import accumulator_layout, operand_layout
from tilec.transform.matrix.partition import warp_grid
from tilec.transform.matrix.shape import matrix_shape

TYPES = [
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
    ("int8", "int32"),
    ("float8_e4m3fn", "float32"),
    ("float64", "float64"),
]


def assert_bijective(layout, threads):
    """Each (thread, register) holds the element that names it; replicas aside, no two elements share one."""
    places = {}
    copies = 1
    for r in layout.replicas:
        copies *= r.extent
    for index in itertools.product(*(range(n) for n in layout.shape)):
        for copy in range(copies):
            place = (layout.thread_of(index, copy), layout.register_of(index))
            assert place not in places, (index, places.get(place))
            assert 0 <= place[0] < threads and 0 <= place[1] < layout.registers
            assert layout.index_of(*place) == index
            places[place] = index
    return places


@pytest.mark.parametrize("dtype, accum", TYPES)
@pytest.mark.parametrize(
    "M, N, threads, policy",
    [
        (64, 64, 128, "square"),
        (32, 48, 64, "full_row"),
        (64, 32, 128, "full_col"),
        (48, 24, 96, "square"),
        (16, 8, 32, "square"),
    ],
)
def test_every_element_has_its_own_place(dtype, accum, M, N, threads, policy):
    target = find("sm_90")
    for transpose_A, transpose_B in itertools.product((False, True), repeat=2):
        op = gemm_op(M, N, 32, dtype, accum, transpose_A, transpose_B, policy)
        places = assert_bijective(accumulator_layout(op, threads, target), threads)
        assert len(places) == M * N  # accumulators are not replicated
        for which in "AB":
            assert_bijective(operand_layout(op, which, threads, target), threads)


@pytest.mark.parametrize("dtype, accum", TYPES)
def test_fragments_are_those_of_the_ptx_isa(dtype, accum):
    target = find("sm_90")
    mma = select_mma(dtype, dtype, accum, target)
    assert mma is not None and mma.k == K_OF[mma.a]
    M, N, K, threads = 64, 32, 2 * mma.k, 128
    op = gemm_op(M, N, K, dtype, accum, False, True, "square")
    grid = plan(matrix_shape(op), threads, target).grid
    assert grid is not None and (grid.m, grid.n) == (4, 1) or (grid.m, grid.n) == (2, 2)
    A, B, C = (
        operand_layout(op, "A", threads, target),
        operand_layout(op, "B", threads, target),
        accumulator_layout(op, threads, target),
    )
    rows, cols = M // grid.m, N // grid.n
    tiles_m, tiles_n = rows // 16, cols // 8
    for thread in range(threads):
        warp, lane = divmod(thread, 32)
        m0, n0 = warp % grid.m * rows, warp // grid.m * cols
        for step, i, e in itertools.product(range(2), range(tiles_m), range(mma.a_registers)):
            m, k = a_position(mma.a, lane, e)
            register = (step * tiles_m + i) * mma.a_registers + e
            assert A.index_of(thread, register) == (m0 + i * 16 + m, step * mma.k + k)
        for step, j, e in itertools.product(range(2), range(tiles_n), range(mma.b_registers)):
            k, n = b_position(mma.b, lane, e)
            register = (step * tiles_n + j) * mma.b_registers + e
            assert B.index_of(thread, register) == (n0 + j * 8 + n, step * mma.k + k)
        for i, j, e in itertools.product(range(tiles_m), range(tiles_n), range(4)):
            m, n = c_position(lane, e)
            assert C.index_of(thread, (i * tiles_n + j) * 4 + e) == (m0 + i * 16 + m, n0 + j * 8 + n)


def test_accumulator_of_one_product_is_the_operand_of_the_next_in_the_same_threads():
    """Attention: P = Q @ K^T in float32 becomes the 16-bit A of P @ V without leaving its thread."""
    target = find("sm_90")
    scores = accumulator_layout(gemm_op(64, 64, 64, "float16", "float32", False, True, "full_row"), 128, target)
    weights = operand_layout(gemm_op(64, 64, 64, "float16", "float32", False, False, "full_row"), "A", 128, target)
    for index in itertools.product(range(64), range(64)):
        assert scores.thread_of(index) == weights.thread_of(index)


@pytest.mark.parametrize(
    "dtype, accum, target, threads, M, N",
    [
        ("float32", "float32", "sm_75", 128, 33, 17),
        ("float64", "float64", "sm_75", 96, 20, 24),
        ("float16", "float32", "sm_90a", 128, 20, 12),
        ("int8", "int32", "sm_75", 40, 16, 16),
    ],
)
def test_scalar_tiles_cover_every_element_once(dtype, accum, target, threads, M, N):
    op = gemm_op(M, N, 7, dtype, accum, False, False, "square")
    places = assert_bijective(accumulator_layout(op, threads, find(target)), threads)
    assert len(places) == M * N
    for which in "AB":
        assert_bijective(operand_layout(op, which, threads, find(target)), threads)


@pytest.mark.parametrize(
    "M, N, threads, policy, expected",
    [
        # As TileLang 0.1.15 splits them (tl.GemmWarpPolicyComputeWarpPartition, cuda.mma).
        (128, 128, 128, "square", (2, 2)),
        (64, 64, 128, "full_row", (4, 1)),
        (64, 64, 128, "full_col", (1, 4)),
        (32, 256, 128, "full_row", (2, 2)),
        (128, 256, 256, "square", (2, 4)),
        (48, 24, 96, "square", (1, 3)),
        (16, 8, 64, "square", None),
        (20, 64, 32, "square", None),
        (64, 12, 32, "square", None),
        (128, 128, 16, "square", None),
    ],
)
def test_warp_partition(M, N, threads, policy, expected):
    grid = warp_grid(M, N, threads, policy)
    assert (grid and (grid.m, grid.n)) == expected
