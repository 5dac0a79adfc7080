"""Wide loads, stores and atomics. CUDA C++ Programming Guide, device memory accesses: an access of n bytes needs an address that is
a multiple of n; TileLang emits them as they are written."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.affine import linear
from ...ir.buffer import Buffer
from ...ir.build import const_int
from ...ir.expr import Binary, Expr, Load, Unknown, Var
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import Place
from ..ranges import Ranges, narrowed, ranges_at
from ..registry import rule
from .gemm import known

_LOADS = {f"{kind}{bits}": bits // 8 for kind in ("ldg", "lds") for bits in (32, 64, 128, 256)}
_VECTORS = {"addx2": 2, "addx4": 4}


@rule("access-alignment")
def access_alignment(ctx: RuleContext):
    for place in ctx.facts.ops("store_wide"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst, bits = op.args.get("dst"), op.args.get("bits")
        if dst is not None and isinstance(bits, int) and op.args.get("pred") is None:
            yield _check(ctx, place, dst.buffer, dst.mins, bits // 8, "stores", op.span)
    for place in ctx.facts.ops("atomic"):
        op = place.stmt
        assert isinstance(op, TileOp)
        lanes, dst = _VECTORS.get(str(op.args.get("kind"))), op.args["dst"]
        if lanes is not None and known(dst.buffer.dtype):
            width = lanes * dtypes.bits(dst.buffer.dtype) // 8
            yield _check(ctx, place, dst.buffer, dst.mins, width, "updates", op.span)
    for place, call in ctx.facts.calls:
        if call.op in _LOADS and len(call.args) == 1 and isinstance(call.args[0], Load):
            source = call.args[0]
            yield _check(ctx, place, source.buffer, source.indices, _LOADS[call.op], "loads", call.span or place.stmt.span)


def _check(ctx: RuleContext, place: Place, buffer: Buffer, indices: tuple[Expr, ...], width: int, verb: str, span):
    if not known(buffer.dtype) or dtypes.bits(buffer.dtype) % 8:
        return None
    size = dtypes.bits(buffer.dtype) // 8
    ranges = narrowed(ranges_at(place), place)
    fault = None if ranges is None else _misaligned(buffer, indices, size, width, ranges)
    if fault is None:
        return None
    return ctx.report(
        f"this {verb} {width} bytes at once, which needs {width}-byte alignment; {buffer.name} has elements of {size} "
        f"byte{'s' if size != 1 else ''} and {fault}",
        span,
        (f"{buffer.name}: {buffer.dtype}", buffer.span),
    )


def _misaligned(buffer: Buffer, indices: tuple[Expr, ...], size: int, width: int, ranges: Ranges) -> str | None:
    """What leads to an address that is no multiple of ``width``, for sure; the start of a buffer is aligned."""
    found = _offset(buffer, indices)
    if found is None:
        return None
    terms, constant = found
    rest = False  # whether a term may make up for the constant
    for term, factor in terms:
        step = _step(term, ranges)
        if step is not None and factor * step * size % width:
            return f"{_name(term)} moves the address by {abs(factor * step) * size} byte{'s' if abs(factor * step) * size != 1 else ''}"
        rest |= factor * size % width != 0
    if constant * size % width and not rest:
        return f"this address lies {constant * size % width} bytes beyond a multiple of {width}"
    return None


def _offset(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[list[tuple[Expr, int]], int] | None:
    """The element's number in the buffer, as a linear form."""
    if len(indices) != buffer.ndim or any(isinstance(i, Unknown) for i in indices):
        return None
    strides = _strides(buffer)
    if strides is None:
        return None
    terms: list[tuple[Expr, int]] = []
    constant = 0
    for index, stride in zip(indices, strides):
        if const_int(index) == 0:
            continue
        if stride is None:
            return None
        more, value = linear(index)
        terms += [(t, f * stride) for t, f in more]
        constant += value * stride
    return terms, constant


def _strides(buffer: Buffer) -> list[int | None] | None:
    if buffer.view_of is not None:
        return None
    if buffer.strides is not None:
        return [const_int(s) for s in buffer.strides]
    found: list[int | None] = [1]
    for extent in reversed(buffer.shape[1:]):
        size = const_int(extent)
        found.insert(0, None if size is None or found[0] is None else size * found[0])
    return found


def _step(term: Expr, ranges: Ranges) -> int | None:
    """By how much a term grows from one of its values to the next; None if it may be constant."""
    if isinstance(term, Var):
        return ranges[term].step if term in ranges and ranges[term].varies else None
    if isinstance(term, Binary) and isinstance(term.a, Var) and term.a in ranges:
        inner, divisor = ranges[term.a], const_int(term.b)
        if divisor is None or divisor < 2 or inner.step != 1:
            return None
        if term.op == "floormod" and inner.varies:
            return 1
        if term.op == "floordiv" and inner.low // divisor < inner.high // divisor:
            return 1
    return None


def _name(term: Expr) -> str:
    from ...ir.printer import expr_text

    return expr_text(term)
