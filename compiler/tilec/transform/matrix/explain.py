"""Which instruction a matrix operation got and, where a faster one exists, what keeps it from it."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT
from ...ir.stmt import TileOp
from ...target.chips import Target
from .instruction import Plan
from .shape import MatrixShape
from .wgmma import GROUP, ROWS, starts_at_a_pattern, stored_tile


def explained(shape: MatrixShape, chosen: Plan, threads: int, target: Target, op: TileOp) -> tuple[str, str]:
    """The mechanism, and the reason why it is no better one ("" if there is none)."""
    if chosen.tcgen05:
        return "tcgen05.mma, accumulator in tensor memory", ""
    if chosen.wgmma:
        w = chosen.wgmma
        how = f"wgmma m64n{w.width}k{w.k}, {w.m} x {w.n} warpgroups, A from {'registers' if shape.A.scope == FRAGMENT else 'shared memory'}"
        return how + (", runs on while other work is done" if op.args.get("asynchronous") else ""), ""
    name = "mma.sync by warps" if chosen.mma and chosen.grid else "multiply-adds by threads"
    return name, _missed(shape, threads, target) if target.wgmma else ""


def _missed(shape: MatrixShape, threads: int, target: Target) -> str:
    """What wgmma asks for and does not find."""
    if threads % GROUP:
        return f"wgmma needs whole warpgroups, multiples of {GROUP} threads; there are {threads}"
    if shape.M % ROWS:
        return f"wgmma needs multiples of {ROWS} rows; M is {shape.M}"
    if shape.B.scope == FRAGMENT:
        return f"wgmma reads B from shared memory; {shape.B.region.buffer.name} is a fragment"
    bits = dtypes.bits(shape.A.dtype)
    if bits != 16 and shape.A.scope != FRAGMENT and not (shape.k_contiguous("A") and shape.k_contiguous("B")):
        return f"wgmma reads {shape.A.dtype} only along K: store A as [M, K] and B as [N, K] (transpose_B=True)"
    for which, operand in (("A", shape.A), ("B", shape.B)):
        tile = stored_tile(operand) if operand.region.buffer.is_shared() else None
        if operand.region.buffer.is_shared() and (tile is None or tile.width < 32):
            return f"wgmma needs rows of {which} of at least 32 bytes; {operand.region.buffer.name} has {operand.cols * dtypes.bits(operand.dtype) // 8}"
        if tile is not None and not starts_at_a_pattern(operand, tile):
            return f"the part of {operand.region.buffer.name} that is read starts at no whole group of 8 rows and {tile.panel_columns} columns"
    return "the types, extents or tiles do not fit wgmma"
