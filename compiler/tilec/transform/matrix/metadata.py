"""The positions of a sparse operand's kept elements: what lanes give to mma.sp and wgmma's sparse form, and reading single ones.

PTX ISA, "Sparse matrix storage" and the metadata figures of "mma.sp": with g = lane / 4 and t = lane % 4, a lane gives, for 16- and
32-bit elements, half t % 2 of the bits of rows g and g + 8 (selector 0: t = 0 and 1 count); for 8-bit ones, half t / 2 of row
g + 8 * (t % 2).
"""

from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import binary, cast, const
from ...ir.expr import Expr, Load
from ...ir.sparsity import BITS_PER_GROUP, sparsity_of
from .contract import MatrixContext
from .shape import MatrixShape


def lane_metadata(shape: MatrixShape, ctx: MatrixContext, first: Expr, lane: Expr, step: Any, bits: int) -> Expr:
    """What a lane gives for sixteen rows from ``first`` and an instruction's k elements from step ``step``."""
    g, t = lane // 4, lane % 4
    if bits == 8:
        return _row_bits(shape, ctx, first + g + t % 2 * 8, step * 64 + t // 2 * 32, 32)
    halves = [_row_bits(shape, ctx, first + g + 8 * half, step * 32 + t % 2 * 16, 16) for half in (0, 1)]
    return binary("bitor", halves[0], binary("shl", halves[1], const(16, "uint32")))


def kept_position(shape: MatrixShape, ctx: MatrixContext, row: Expr, stored: Expr) -> Expr:
    """Where along K the ``stored``-th kept element of a row belongs."""
    form = sparsity_of(shape.A.dtype)
    assert form is not None
    within = cast(_row_bits(shape, ctx, row, stored * (BITS_PER_GROUP // form.kept), 2), "int32")
    return stored // form.kept * form.group + within // form.unit


def _row_bits(shape: MatrixShape, ctx: MatrixContext, row: Expr, first: Expr, count: int) -> Expr:
    """``count`` bits of a row's metadata from bit ``first``, a multiple of ``count``."""
    E = shape.E
    assert E is not None
    size = dtypes.bits(E.dtype)
    if size >= count:
        word = _word(shape, ctx, row, first // size)
        if size == count:
            return word
        shifted = binary("shr", word, cast(first % size, "uint32"))
        return binary("bitand", shifted, const((1 << count) - 1, "uint32"))
    result: Expr | None = None
    for part in range(count // size):
        piece = binary("shl", _word(shape, ctx, row, first // size + part), const(part * size, "uint32"))
        result = piece if result is None else binary("bitor", result, piece)
    assert result is not None
    return result


def _word(shape: MatrixShape, ctx: MatrixContext, row: Expr, column: Expr) -> Expr:
    """A word of metadata as an unsigned number."""
    E = shape.E
    assert E is not None
    buffer: Buffer = E.region.buffer
    indices = E.indices(column, row) if E.transposed else E.indices(row, column)
    if buffer.is_shared():
        buffer, indices = ctx.shared_element(buffer, indices)
    value: Expr = Load(buffer.dtype, None, buffer, indices)
    return cast(cast(value, f"uint{dtypes.bits(buffer.dtype)}"), "uint32")
