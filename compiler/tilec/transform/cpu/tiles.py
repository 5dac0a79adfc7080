"""Copies, fills, transposes, atomics and scans as loops."""
from __future__ import annotations

from typing import Any

from ...analysis.guards import inside
from ...ir.buffer import GLOBAL, Region, index_at, tile_axes, tile_shape
from ...ir.build import binary, cast, const, const_int, lift, select
from ...ir.convolution import image_place
from ...ir.expr import Expr
from ...ir.stmt import Body, If, Store, TileOp
from ..errors import LoweringError
from .context import Context


def lower_copy(op: TileOp, ctx: Context) -> Body:
    src, dst = op.region("src"), op.region("dst")
    shape = tile_shape(dst) if len(tile_axes(dst)) >= len(tile_axes(src)) else tile_shape(src)
    if len(tile_axes(src)) not in (0, len(shape)) or len(tile_axes(dst)) not in (0, len(shape)):
        raise LoweringError(f"T.copy between tiles of {len(tile_axes(src))} and {len(tile_axes(dst))} dimensions", op.span, "copy-rank")

    def body(position: tuple[Expr, ...]) -> Body:
        value = ctx.load(src.buffer, index_at(src, position if tile_axes(src) else ()), op.span)
        return (ctx.store(dst.buffer, index_at(dst, position if tile_axes(dst) else ()), value, op.span),)

    return ctx.loops(shape, body, op.span)


def lower_im2col(op: TileOp, ctx: Context) -> Body:
    src, dst = op.region("src"), op.region("dst")

    def body(position: tuple[Expr, ...]) -> Body:
        indices, there = image_place(op, *position)
        value = ctx.load(src.buffer, indices, op.span)
        value = value if there is None else select(there, value, const(0, src.dtype))
        return (ctx.store(dst.buffer, (*dst.mins[:-2], dst.mins[-2] + position[0], dst.mins[-1] + position[1]), value, op.span),)

    return ctx.loops(dst.extents[-2:], body, op.span)


def lower_transpose(op: TileOp, ctx: Context) -> Body:
    src, dst = op.region("src"), op.region("dst")

    def body(position: tuple[Expr, ...]) -> Body:
        flipped = (*position[:-2], position[-1], position[-2])
        return (ctx.store(dst.buffer, index_at(dst, flipped), ctx.load(src.buffer, index_at(src, position), op.span), op.span),)

    return ctx.loops(tile_shape(src), body, op.span)


def lower_fill(op: TileOp, ctx: Context) -> Body:
    dst = op.region("dst")
    value = ctx.expression(lift(op.args["value"], dst.dtype), op.span) if op.op == "fill" else const(0, dst.dtype)
    return ctx.loops(tile_shape(dst), lambda position: (ctx.store(dst.buffer, index_at(dst, position), value, op.span),), op.span)


COMBINE: dict[str, Any] = {
    "add": lambda a, b: binary("add", a, b), "addx2": lambda a, b: binary("add", a, b), "addx4": lambda a, b: binary("add", a, b),
    "max": lambda a, b: binary("max", a, b), "min": lambda a, b: binary("min", a, b), "or": lambda a, b: binary("bitor", a, b),
    "and": lambda a, b: binary("bitand", a, b), "xor": lambda a, b: binary("bitxor", a, b), "store": lambda a, b: b,
}


def lower_atomic(op: TileOp, ctx: Context) -> Body:
    """Blocks run one after another when a program has atomics, so a plain update is atomic."""
    dst, kind = op.region("dst"), op.args["kind"]
    src = op.args.get("src")
    lanes = {"addx2": 2, "addx4": 4}.get(kind)
    if lanes is not None and isinstance(src, Region):
        return _vector_atomic(op, ctx, dst, src, lanes)

    def body(position: tuple[Expr, ...]) -> Body:
        indices = index_at(dst, position if tile_axes(dst) else ())
        if isinstance(src, Region):
            value = ctx.load(src.buffer, index_at(src, position if tile_axes(src) else ()), op.span)
        else:
            value = ctx.expression(op.args["value"], op.span)
        return (_update(op, ctx, dst, indices, value, kind),)

    return ctx.loops(tile_shape(dst), body, op.span)


def _vector_atomic(op: TileOp, ctx: Context, dst: Region, src: Region, lanes: int) -> Body:
    statements = []
    for lane in range(lanes):
        to = (*dst.mins[:-1], dst.mins[-1] + lane)
        value = ctx.load(src.buffer, (*src.mins[:-1], src.mins[-1] + lane), op.span)
        statements.append(_update(op, ctx, dst, to, value, "add"))
    return tuple(statements)


def _update(op: TileOp, ctx: Context, dst: Region, indices: tuple[Expr, ...], value: Expr, kind: str) -> Any:
    old = ctx.load(dst.buffer, indices, op.span)
    statement = Store(op.span, dst.buffer, indices, cast(COMBINE[kind](old, cast(value, dst.dtype)), dst.dtype))
    guard = inside(indices, dst.buffer.shape, ctx.ranges) if dst.buffer.scope == GLOBAL else None
    return statement if guard is None else If(op.span, guard, (statement,))


def lower_scan(op: TileOp, ctx: Context) -> Body:
    """Inclusive prefix sums or maxima along ``dim``."""
    src, dst, dim, reverse = op.region("src"), op.region("dst"), op.args["dim"], op.args["reverse"]
    if not tile_axes(src):
        return lower_copy(op, ctx)
    shape = src.extents
    length = shape[dim]
    others = [e for i, e in enumerate(shape) if i != dim]
    combine = COMBINE["add" if op.op == "cumsum" else "max"]

    def row(position: tuple[Expr, ...]) -> Body:
        def at(i: Expr) -> tuple[Expr, ...]:
            return (*position[:dim], i, *position[dim:])

        def step(indices: tuple[Expr, ...]) -> Body:
            i = indices[0]
            here = length - 1 - i if reverse else i
            before = here + 1 if reverse else here - 1
            value = ctx.load(src.buffer, _inside(src, at(here)), op.span)
            first = Store(op.span, dst.buffer, _inside(dst, at(here)), cast(value, dst.dtype))
            old = ctx.load(dst.buffer, _inside(dst, at(before)), op.span)
            later = Store(op.span, dst.buffer, _inside(dst, at(here)), cast(combine(old, cast(value, dst.dtype)), dst.dtype))
            return (If(op.span, binary("eq", i, const(0)), (first,), (later,)),)

        return ctx.loops([length], step, op.span, "scan")

    return ctx.loops(others, row, op.span)


def _inside(r: Region, position: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The element at a position that counts every dimension; of a region with other dimensions, at those that are not 1."""
    if len(r.mins) == len(position):
        return tuple(m + p for m, p in zip(r.mins, position))
    return index_at(r, tuple(p for p in position if const_int(p) != 0) if len(tile_axes(r)) != len(position) else position)


def lower_dp4a(op: TileOp, ctx: Context) -> Body:
    """C += the dot product of four bytes each."""
    a, b, c = (op.region(name) for name in "ABC")
    total: Expr = ctx.load(c.buffer, c.mins, op.span)
    for k in range(4):
        x, y = (ctx.load(r.buffer, (*r.mins[:-1], r.mins[-1] + k), op.span) for r in (a, b))
        total = total + cast(x, "int32") * cast(y, "int32")
    return (Store(op.span, c.buffer, c.mins, total),)


def atomic_call(e: Any, ctx: Context, result: Any, span: Any) -> Body:
    """``old = T.atomic_add(..., return_prev=True)`` as a read and an update."""
    place, value = e.args[0], e.args[1]
    kind = e.op.removeprefix("atomic_")
    old = ctx.expression(place, span)
    indices = tuple(ctx.expression(i, span) for i in place.indices)
    update = Store(span, place.buffer, indices, cast(COMBINE[kind](old, ctx.expression(value, span)), place.buffer.dtype))
    return (result(old), update)


