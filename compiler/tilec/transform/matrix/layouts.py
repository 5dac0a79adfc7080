"""Fragment layouts of matrix operands: mma.sync's fragment tables (PTX ISA, "Matrix Fragments for mma"), and the
thread tiles of the scalar path.

A lane's place in a fragment is written with g = lane / 4 and t = lane % 4, as the tables do.
"""

from __future__ import annotations

from ...analysis.layout import REGISTER, THREAD, Digit, FragmentLayout, Replica
from ...ir.stmt import TileOp
from ...target.chips import Target
from . import wgmma
from .instruction import Mma, plan
from .partition import TILE_M, TILE_N, WARP, WarpGrid
from .shape import MatrixShape, matrix_shape


def accumulator_layout(op: TileOp, threads: int, target: Target) -> FragmentLayout:
    """Where the elements of C are, for C in a fragment."""
    shape = matrix_shape(op)
    chosen = plan(shape, threads, target)
    if chosen.wgmma:
        layout = wgmma.accumulator(chosen.wgmma, shape.M, shape.N)
    elif chosen.mma and chosen.grid:
        layout = mma_accumulator(shape.M, shape.N, chosen.grid)
    else:
        layout = scalar_accumulator(shape.M, shape.N, threads)
    return of_rank(layout, shape.C.region.buffer.ndim)


def operand_layout(op: TileOp, which: str, threads: int, target: Target) -> FragmentLayout:
    """Where the elements of A or B (``which``) must be when it is a fragment; dimensions in the order it is stored."""
    shape = matrix_shape(op)
    chosen = plan(shape, threads, target)
    if chosen.wgmma:
        layout = wgmma.register_operand(chosen.wgmma, shape.M, shape.stored_k("A"))
    elif chosen.mma and chosen.grid:
        layout = mma_operand(which, _outer(shape, which), shape.stored_k(which), chosen.mma, chosen.grid)
    else:
        layout = scalar_operand(which, shape, threads)
    operand = shape.A if which == "A" else shape.B
    stored = layout if shape.k_contiguous(which) else swap_dimensions(layout)
    return of_rank(stored, operand.region.buffer.ndim)


def _outer(shape: MatrixShape, which: str) -> int:
    return shape.M if which == "A" else shape.N


def mma_accumulator(M: int, N: int, grid: WarpGrid) -> FragmentLayout:
    """c0, c1: row g, columns 2t, 2t+1; c2, c3: row g+8. A warp's 16 x 8 tiles are numbered along its columns first."""
    rows, cols = M // grid.m, N // grid.n
    return FragmentLayout(
        (M, N),
        _without_ones(
            (
                Digit(0, 8, 1, THREAD, 4),
                Digit(0, 2, 8, REGISTER, 2),
                Digit(0, rows // TILE_M, TILE_M, REGISTER, 4 * (cols // TILE_N)),
                Digit(0, grid.m, rows, THREAD, WARP),
                Digit(1, 2, 1, REGISTER, 1),
                Digit(1, 4, 2, THREAD, 1),
                Digit(1, cols // TILE_N, TILE_N, REGISTER, 4),
                Digit(1, grid.n, cols, THREAD, WARP * grid.m),
            )
        ),
    )


def mma_operand(which: str, outer: int, K: int, mma: Mma, grid: WarpGrid) -> FragmentLayout:
    """A as [M, K] or B as [N, K], as stored. K beyond the last whole instruction is padding.

    Per instruction a lane holds, ``pack`` neighbours along K at a time (pack = elements in 32 bits): A at rows g and
    g+8, B at row g; first k = pack * t, then pack * (t + 4). float64 has one k step of 4 only.
    """
    pack = max(32 // mma.bits, 1)
    k = mma.stored_k(which)
    halves = k // (4 * pack)
    tile = TILE_M if which == "A" else TILE_N
    row_halves = tile // 8
    per_tile = mma.a_registers if which == "A" else mma.b_registers
    steps = -(-K // k)
    mine, others = (grid.m, grid.n) if which == "A" else (grid.n, grid.m)
    my_scale, other_scale = (WARP, WARP * grid.m) if which == "A" else (WARP * grid.m, WARP)
    warp_rows = outer // mine
    digits = (
        Digit(0, 8, 1, THREAD, 4),
        Digit(0, row_halves, 8, REGISTER, pack),
        Digit(0, warp_rows // tile, tile, REGISTER, per_tile),
        Digit(0, mine, warp_rows, THREAD, my_scale),
        Digit(1, pack, 1, REGISTER, 1),
        Digit(1, 4, pack, THREAD, 1),
        Digit(1, halves, 4 * pack, REGISTER, pack * row_halves),
        Digit(1, steps, k, REGISTER, per_tile * (warp_rows // tile)),
    )
    replicas = (Replica(others, other_scale),) if others > 1 else ()
    return FragmentLayout((outer, K), _without_ones(digits), replicas)


def thread_grid(M: int, N: int, threads: int) -> tuple[int, int]:
    """How many threads go down and across a scalar tile: least padding first, then the squarest tile a thread."""

    def cost(across: int) -> tuple[int, int]:
        rows, cols = -(-M // (threads // across)), -(-N // across)
        return rows * cols, rows + cols

    across = min((n for n in range(1, threads + 1) if threads % n == 0), key=cost)
    return threads // across, across


def scalar_accumulator(M: int, N: int, threads: int) -> FragmentLayout:
    """Neighbouring threads hold neighbouring columns; the rest of the tile repeats in registers. May be padded."""
    down, across = thread_grid(M, N, threads)
    rows, cols = -(-M // down), -(-N // across)
    return FragmentLayout(
        (M, N),
        _without_ones(
            (
                Digit(0, down, 1, THREAD, across),
                Digit(0, rows, down, REGISTER, cols),
                Digit(1, across, 1, THREAD, 1),
                Digit(1, cols, across, REGISTER, 1),
            )
        ),
    )


def scalar_operand(which: str, shape: MatrixShape, threads: int) -> FragmentLayout:
    """A thread holds the whole rows of A (columns of B) that its elements of C need."""
    down, across = thread_grid(shape.M, shape.N, threads)
    mine, others, my_scale, other_scale = (down, across, across, 1) if which == "A" else (across, down, 1, across)
    outer, K = _outer(shape, which), shape.stored_k(which)
    digits = (
        Digit(0, mine, 1, THREAD, my_scale),
        Digit(0, -(-outer // mine), mine, REGISTER, K),
        Digit(1, K, 1, REGISTER, 1),
    )
    return FragmentLayout(
        (outer, K), _without_ones(digits), (Replica(others, other_scale),) if others > 1 else ()
    )


def of_rank(layout: FragmentLayout, rank: int) -> FragmentLayout:
    """The same placement for a fragment with leading dimensions of one element."""
    extra = rank - len(layout.shape)
    if extra == 0:
        return layout
    digits = tuple(Digit(d.dim + extra, d.extent, d.stride, d.axis, d.scale) for d in layout.digits)
    return FragmentLayout((1,) * extra + layout.shape, digits, layout.replicas)


def swap_dimensions(layout: FragmentLayout) -> FragmentLayout:
    """The same placement for the transposed matrix."""
    digits = tuple(Digit(1 - d.dim, d.extent, d.stride, d.axis, d.scale) for d in layout.digits)
    return FragmentLayout((layout.shape[1], layout.shape[0]), digits, layout.replicas)


def _without_ones(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
    return tuple(d for d in digits if d.extent > 1)
