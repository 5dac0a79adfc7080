"""The facts of one matrix operation: extents, types, transposes; read once from a TileOp."""

from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, TMEM, Region
from ...ir.build import const_int
from ...ir.expr import Expr
from ...ir.sparsity import metadata_factor
from ...ir.stmt import TileOp
from ...records import dataclass
from .problem import MatrixProblem

SPARSE_OPS = ("gemm_sp", "wgmma_gemm_sp")
MATRIX_OPS = ("gemm", "wgmma_gemm", "tcgen05_gemm", *SPARSE_OPS)


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
    """C[M, N] += op(A)[M, K] @ op(B)[K, N]. With ``E`` A is sparse: it holds half of its elements along K, E their positions."""

    op: TileOp
    M: int
    N: int
    K: int
    A: Operand
    B: Operand
    C: Operand
    policy: str
    E: Operand | None = None

    def stored_k(self, which: str) -> int:
        """Elements along K that are in memory."""
        return self.K // 2 if which == "A" and self.E is not None else self.K

    def at(self, which: str, outer: Any, k: Any) -> tuple[Expr, ...]:
        """Indices of A at (m, k) or of B at (n, k), whichever way it is stored. A sparse A counts its kept elements."""
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
    E = _metadata(op, A.dtype, M, K) if op.op in SPARSE_OPS else None
    if E is not None:
        K *= 2
    N, K_B = (B.rows, B.cols) if B.transposed else (B.cols, B.rows)
    if K != K_B or (C.rows, C.cols) != (M, N):
        raise MatrixProblem(
            f"T.{op.op}: A is {M}x{K}, B is {K_B}x{N} and C is {C.rows}x{C.cols} (after transposing); K must agree, "
            "and C must be M x N.",
            op.span,
        )
    return MatrixShape(op, M, N, K, A, B, C, str(op.args.get("policy") or "square"), E)


def _metadata(op: TileOp, dtype: str, M: int, half: int) -> Operand:
    E = _operand(op, "E", bool(op.args.get("transpose_E")))
    found = (E.cols, E.rows) if E.transposed else (E.rows, E.cols)
    factor = metadata_factor(dtype, E.dtype)
    if factor is None or dtypes.bits(E.dtype) not in (8, 16, 32):
        raise MatrixProblem(
            f"T.{op.op}: {E.dtype} metadata ({E.region.buffer.name}) for {dtype} elements; elements have 8, 16 or 32 bits, metadata "
            "are integers of 8, 16 or 32.",
            op.arg_spans.get("E", op.span),
        )
    if found != (M, 2 * half // factor) or 2 * half % factor:
        raise MatrixProblem(
            f"T.{op.op}: the metadata {E.region.buffer.name} are {found[0]}x{found[1]}; {M} rows of {2 * half} elements, {factor} of which "
            f"one {E.dtype} describes, need {M}x{-(-2 * half // factor)}.",
            op.arg_spans.get("E", op.span),
        )
    if E.scope in (FRAGMENT, TMEM):
        raise MatrixProblem(
            f"T.{op.op}: the metadata {E.region.buffer.name} are in {E.scope} memory; they are read from shared memory (T.alloc_shared).",
            op.arg_spans.get("E", op.span),
        )
    return E


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
