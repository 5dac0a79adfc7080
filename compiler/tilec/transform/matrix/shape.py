"""The facts of one matrix operation: extents, types, transposes; read once from a TileOp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.buffer import Region
from ...ir.build import const_int
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from .problem import MatrixProblem

MATRIX_OPS = ("gemm", "wgmma_gemm", "tcgen05_gemm")


@dataclass(frozen=True)
class Operand:
    """One matrix of the operation: ``rows``/``cols`` are the extents of the region's last two dimensions.

    ``transposed``: the region is [K, M] instead of [M, K] (A), or [N, K] instead of [K, N] (B).
    """

    region: Region
    rows: int
    cols: int
    transposed: bool

    @property
    def dtype(self) -> str:
        return self.region.buffer.dtype

    @property
    def scope(self) -> str:
        return self.region.buffer.scope

    def indices(self, row: Any, col: Any) -> tuple[Expr, ...]:
        """Buffer indices of an element of the matrix as it is stored."""
        mins = self.region.mins
        return (*mins[:-2], mins[-2] + row, mins[-1] + col)


@dataclass(frozen=True)
class MatrixShape:
    """C[M, N] += op(A)[M, K] @ op(B)[K, N]."""

    op: TileOp
    M: int
    N: int
    K: int
    A: Operand
    B: Operand
    C: Operand
    policy: str

    def at(self, which: str, outer: Any, k: Any) -> tuple[Expr, ...]:
        """Indices of A at (m, k) or of B at (n, k), whichever way it is stored."""
        operand = self.A if which == "A" else self.B
        k_last = not operand.transposed if which == "A" else operand.transposed
        return operand.indices(outer, k) if k_last else operand.indices(k, outer)

    def k_contiguous(self, which: str) -> bool:
        """Whether neighbours along K are neighbours in memory."""
        return not self.A.transposed if which == "A" else self.B.transposed


def matrix_shape(op: TileOp) -> MatrixShape:
    A = _operand(op, "A", bool(op.args.get("transpose_A")))
    B = _operand(op, "B", bool(op.args.get("transpose_B")))
    C = _operand(op, "C", False)
    M, K = (A.cols, A.rows) if A.transposed else (A.rows, A.cols)
    N, K_B = (B.rows, B.cols) if B.transposed else (B.cols, B.rows)
    if K != K_B or (C.rows, C.cols) != (M, N):
        raise MatrixProblem(
            f"T.{op.op}: A is {M}x{K}, B is {K_B}x{N} and C is {C.rows}x{C.cols} (after transposing); K must agree, "
            "and C must be M x N.",
            op.span,
        )
    return MatrixShape(op, M, N, K, A, B, C, str(op.args.get("policy") or "square"))


def _operand(op: TileOp, name: str, transposed: bool) -> Operand:
    region = op.region(name)
    if len(region.extents) < 2:
        raise MatrixProblem(
            f"T.{op.op}: {name} ({region.buffer.name}) has {len(region.extents)} dimension; a matrix needs two.",
            op.arg_spans.get(name, op.span),
        )
    rows, cols = const_int(region.extents[-2]), const_int(region.extents[-1])
    if rows is None or cols is None:
        raise MatrixProblem(
            f"T.{op.op}: the extents of {name} ({region.buffer.name}) must be known at compile time.",
            op.arg_spans.get(name, op.span),
        )
    return Operand(region, rows, cols, transposed)
