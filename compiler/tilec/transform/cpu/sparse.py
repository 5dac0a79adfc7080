"""The sparse operand of a matrix product, unpacked."""
from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import Buffer, Region
from ...ir.build import binary, cast, const, const_int
from ...ir.expr import Expr, Load
from ...ir.sparsity import BITS_PER_GROUP, metadata_factor, sparsity_of
from ...ir.stmt import Body, Store, TileOp
from ..errors import LoweringError
from .context import Context


def pack_sparse(op: TileOp, ctx: Context, target: Buffer) -> Body:
    """``target`` [M, K]: zeros, and each kept element of A added at its place."""
    A, E = op.region("A"), op.region("E")
    M, K = (const_int(e) or 0 for e in target.shape)
    form, factor = sparsity_of(A.dtype), metadata_factor(A.dtype, E.dtype)
    if form is None or factor is None:
        raise LoweringError(f"T.{op.op}: {E.dtype} metadata for {A.dtype} elements; elements have 8, 16 or 32 bits, metadata are integers",
                            op.arg_spans.get("E", op.span), "gemm-sp")
    span, size = op.span, dtypes.bits(E.dtype)

    def clear(p: tuple[Expr, ...]) -> Body:
        return (Store(span, target, p, const(0, target.dtype)),)

    def place(p: tuple[Expr, ...]) -> Body:
        row, stored = p
        bit = stored * (BITS_PER_GROUP // form.kept)
        word = _element(ctx, E, row, bit // size, op.args["transpose_E"], op)
        shifted = binary("shr", cast(word, "int64"), cast(bit % size, "int64"))
        position = cast(binary("bitand", shifted, const(3, "int64")), "int32")
        column = stored // form.kept * form.group + position // form.unit
        value = cast(_element(ctx, A, row, stored, op.args["transpose_A"], op), target.dtype)
        return (Store(span, target, (row, column), Load(target.dtype, None, target, (row, column)) + value),)

    return (*ctx.loops((const(M), const(K)), clear, span, "p"), *ctx.loops((const(M), const(K // 2)), place, span, "p"))


def _element(ctx: Context, r: Region, row: Expr, column: Expr, transposed: bool, op: TileOp) -> Expr:
    position = (column, row) if transposed else (row, column)
    return ctx.load(r.buffer, (*r.mins[:-2], r.mins[-2] + position[0], r.mins[-1] + position[1]), op.span)
