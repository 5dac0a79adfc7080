"""Operands that matrix operations take through registers: where they are large, a copying warp costs more than it brings.

A copying warp's tile is given back as soon as it was read, so that all of it lies in registers at once. Without one, a compiler reads the
tile bit by bit as mma.sync takes it.
"""
from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT
from ...ir.stmt import For, TileOp
from ...ir.stmt import walk as walk_statements
from ...target.chips import Target
from ..matrix.instruction import plan as plan_matrix
from ..matrix.problem import MatrixProblem
from ..matrix.shape import MATRIX_OPS, MatrixShape, matrix_shape

_MOST = 96  # 32-bit registers a thread that an operand may take
_LANES = 32


def too_large(loop: For, threads: int, target: Target) -> str:
    """Why the loop is better left to all threads, or nothing."""
    for s in walk_statements(loop.body):
        if isinstance(s, TileOp) and s.op in MATRIX_OPS:
            count = _registers(matrix_shape(s), threads, target)
            if count > _MOST:
                return f"an operand of the matrix operation takes {count} registers a thread, which would all be filled before its tile is given back"
    return ""


def _registers(shape: MatrixShape, threads: int, target: Target) -> int:
    try:
        found = plan_matrix(shape, threads, target)
    except MatrixProblem:
        return 0
    if found.mma is None or found.grid is None:
        return 0
    rows, columns = (shape.M // found.grid.m if shape.A.scope == FRAGMENT else 0), (shape.N // found.grid.n if shape.B.scope == FRAGMENT else 0)
    return max(rows * dtypes.bits(shape.A.dtype), columns * dtypes.bits(shape.B.dtype)) * shape.K // 32 // _LANES
