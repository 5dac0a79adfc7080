"""Defects of scalar arithmetic, conversions and views."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import const_int
from ...ir.expr import Binary, Load, Unary
from ...ir.stmt import TileOp
from ...source.span import Span
from ..context import RuleContext


def float_remainder(ctx: RuleContext) -> Iterator[Span | None]:
    for place, x in ctx.facts.divisions:
        if isinstance(x, Binary) and dtypes.is_float(x.dtype):
            yield x.span or place.stmt.span


def ceildiv_of_unknown_sign(ctx: RuleContext) -> Iterator[Span | None]:
    """T.ceildiv(a, b) is ``-(-a // b)`` here; b comes from memory, or is negative for sure."""
    for place, x in ctx.facts.divisions:
        if not (isinstance(x, Unary) and isinstance(x.a, Binary) and x.a.op == "floordiv"):
            continue
        divisor = x.a.b
        negative = const_int(divisor) is not None and (const_int(divisor) or 0) < 0
        stored = isinstance(divisor, Load) and divisor.dtype.startswith("int")
        if isinstance(x.a.a, Unary) and x.a.a.op == "neg" and (negative or stored):
            yield x.span or place.stmt.span


def element_conversion(ctx: RuleContext) -> Iterator[Span | None]:
    for place in ctx.facts.ops("copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args.get("src"), op.args.get("dst")
        if isinstance(src, Region) and isinstance(dst, Region) and src.form == dst.form == "element" and src.dtype != dst.dtype:
            if dtypes.UNKNOWN not in (src.dtype, dst.dtype):
                yield op.span


def view_of_swizzled(ctx: RuleContext) -> Iterator[Span | None]:
    """A view with elements of another width, read or written, on an operand of a product."""
    operands = {
        op.args[name].buffer
        for place in ctx.facts.ops("gemm", "wgmma_gemm")
        for op in (place.stmt,)
        if isinstance(op, TileOp)
        for name in ("A", "B")
        if isinstance(op.args.get(name), Region) and op.args[name].buffer.is_shared()
    }
    if not operands:
        return
    for buffer in ctx.facts.uses:
        storage = buffer.storage()
        if buffer is not storage and storage in operands and dtypes.bits(buffer.dtype) != dtypes.bits(storage.dtype):
            yield buffer.span
