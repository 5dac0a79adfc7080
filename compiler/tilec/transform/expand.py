"""Tile operators that are loops over elements, written as T.Parallel; matrix operations, reductions and synchronisation stay."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, GLOBAL, TMEM, Buffer, Region, index_at, tile_axes, tile_shape, whole
from ..ir.build import cast, const, lift, select
from ..ir.convolution import image_place
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, Let, Parallel, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .dynamic_extents import repeated_tiles
from .errors import LoweringError
from .joined_arrivals import JOINED, join_arrivals
from .legalize import resolve_elements
from .rewrite import map_children, substitute_body

COPIES = ("copy", "async_copy")


def expand_tiles(program: TileProgram, ctx: PassContext) -> TileProgram:
    program = join_arrivals(program, ctx.target)
    return replace(program, body=resolve_elements(_body(program.body, ctx, False)))


def _body(body: Body, ctx: PassContext, parallel: bool) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, TileOp):
            handler = _EXPANSIONS.get(s.op)
            made = handler(s, ctx) if handler is not None else (s,)
            if parallel:
                made = tuple(_serial(x) for x in made)
            out += made
        elif isinstance(s, Parallel) and not parallel and (parts := _split_at_grid_barriers(s)) is not None:
            out += _body(parts, ctx, False)
        elif isinstance(s, Parallel):
            out.append(_merge(replace(s, body=_body(s.body, ctx, True)), parallel))
        else:
            out.append(map_children(s, lambda inner: _body(inner, ctx, parallel)))
    return tuple(out)


def _split_at_grid_barriers(s: Parallel) -> Body | None:
    """A loop whose iterations wait for the whole grid is several loops, one after the other. None: there is no barrier in it."""
    if not any(isinstance(x, TileOp) and x.op == "sync_grid" for x in s.body):
        return None
    parts: list[Stmt] = []
    group: list[Stmt] = []
    names: set[Var] = set()
    for x in (*s.body, None):
        if x is None or (isinstance(x, TileOp) and x.op == "sync_grid"):
            if group:
                parts.append(replace(s, body=tuple(group)))
            if x is not None:
                parts.append(x)
                names |= {y.var for y in group if isinstance(y, Let)}
            group = []
            continue
        if any(v in names for y in walk_statements((x,)) for e in expressions(y) for v in walk_expr(e) if isinstance(v, Var)):
            raise LoweringError("A name is used on both sides of T.sync_grid inside T.Parallel; keep its value in a fragment.", x.span, "sync-grid")
        group.append(x)
    return tuple(parts)


def _merge(s: Parallel, inside: bool) -> Stmt:
    """A parallel loop directly inside another is one of more dimensions; elsewhere inside it is a serial loop."""
    if inside:
        return _serial(s)
    while len(s.body) == 1 and isinstance(s.body[0], For) and s.body[0].attrs.get("was_parallel"):
        inner = s.body[0]
        s = replace(s, vars=(*s.vars, inner.var), extents=(*s.extents, inner.extent), body=inner.body)
    return repeated_tiles(s)


def _serial(s: Stmt) -> Stmt:
    if not isinstance(s, Parallel):
        return s
    body = s.body
    for var, extent in reversed(list(zip(s.vars, s.extents))):
        body = (For(s.span, var, const(0), extent, body, "serial", 1, {"was_parallel": True}),)
    return body[0] if body else s


# -- loops over tiles ------------------------------------------------------------------------------------------------------
def over_tile(op: TileOp, shape: tuple[Expr, ...], make: Callable[[tuple[Expr, ...]], Body], ctx: PassContext, **attrs: Any) -> Parallel:
    names = "ijklmnpq"
    variables = tuple(Var("int32", op.span, names[k % len(names)], "loop") for k in range(len(shape)))
    return Parallel(op.span, variables, shape, make(variables), {"tile_op": True, **attrs})


def element(region: Region, position: tuple[Expr, ...]) -> Load:
    return Load(region.dtype, region.span, region.buffer, at(region, position))


def at(region: Region, position: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return index_at(region, position if tile_axes(region) else ())


def _copy(op: TileOp, ctx: PassContext) -> Body:
    src, dst = op.region("src"), op.region("dst")
    if TMEM in (src.buffer.scope, dst.buffer.scope):
        return (op,)
    a, b = len(tile_axes(src)), len(tile_axes(dst))
    if a != b and 0 not in (a, b):
        raise LoweringError(f"T.copy between {src.buffer.name} ({a} dimensions) and {dst.buffer.name} ({b} dimensions): the tiles must have the "
                            "same number of dimensions that are not 1.", op.span, "copy-rank")
    if b == 0 and a:
        raise LoweringError(f"T.copy of a tile of {src.buffer.name} to one element of {dst.buffer.name}; give the destination the tile's extents.",
                            op.span, "copy-rank")
    shape = tile_shape(dst)
    asynchronous = op.op == "async_copy" or bool(op.args.get("asynchronous"))
    attrs: dict[str, Any] = {"copy": True}
    if asynchronous:
        attrs["asynchronous"] = True
    if op.args.get("pipeline"):
        attrs["pipeline"] = op.args["pipeline"]
    return (over_tile(op, shape, lambda p: (Store(op.span, dst.buffer, at(dst, p), cast(element(src, p), dst.dtype)),), ctx, **attrs),)


def _im2col(op: TileOp, ctx: PassContext) -> Body:
    src, dst = op.region("src"), op.region("dst")

    def body(p: tuple[Expr, ...]) -> Body:
        indices, there = image_place(op, *p)
        value: Expr = Load(src.dtype, op.span, src.buffer, indices)
        return (Store(op.span, dst.buffer, (*dst.mins[:-2], dst.mins[-2] + p[0], dst.mins[-1] + p[1]), value if there is None else select(there, value, const(0, src.dtype))),)

    attrs = {name: op.args[name] for name in ("asynchronous", "pipeline") if op.args.get(name)}
    return (over_tile(op, dst.extents[-2:], body, ctx, copy=True, **attrs),)


def _bulk_copy(op: TileOp, ctx: PassContext) -> Body:
    """T.tma_copy by the threads that run it. They wait for each other before one of them may say that the tile is there, if they do not say so each."""
    plain = replace(op, op="copy", args={k: v for k, v in op.args.items() if k not in ("barrier", "leader", JOINED)})
    if op.args.get(JOINED):
        started = _copy(replace(plain, args={**plain.args, "asynchronous": True}), ctx)
        return (*started, TileOp(op.span, "cp_async_barrier_noinc", {"mbar": op.region("barrier"), "due": True}))
    if not op.region("dst").buffer.is_shared():
        return _copy(plain, ctx)
    return (*_copy(plain, ctx), TileOp(op.span, "sync_threads", {}))


def _transpose(op: TileOp, ctx: PassContext) -> Body:
    src, dst = op.region("src"), op.region("dst")
    shape = tile_shape(dst)

    def body(p: tuple[Expr, ...]) -> Body:
        return (Store(op.span, dst.buffer, at(dst, p), cast(element(src, (*p[:-2], p[-1], p[-2])), dst.dtype)),)

    return (over_tile(op, shape, body, ctx),)


def _fill(op: TileOp, ctx: PassContext) -> Body:
    dst = op.region("dst")
    if dst.buffer.scope == TMEM:
        raise LoweringError(f"{dst.buffer.name} is in tensor memory, which has no fill; start the first T.gemm with clear_accum=True.", op.span, "tmem-fill")
    value = lift(op.args["value"], dst.dtype) if op.op == "fill" else const(0, dst.dtype)
    return (over_tile(op, tile_shape(dst), lambda p: (Store(op.span, dst.buffer, at(dst, p), cast(value, dst.dtype)),), ctx),)


def _atomic(op: TileOp, ctx: PassContext) -> Body:
    """A tile of atomics is a loop over atomics of one element each."""
    dst, src = op.region("dst"), op.args.get("src")
    kind = op.args["kind"]
    lanes = {"addx2": 2, "addx4": 4}.get(kind)
    if lanes is not None and isinstance(src, Region) and not tile_axes(dst):
        return tuple(_element_atomic(op, "add", (*dst.mins[:-1], dst.mins[-1] + k), element(_moved(src, k), ()), dst) for k in range(lanes))
    kind = "add" if lanes else kind
    if not tile_axes(dst) and dst.form != "element":  # a tile of one element, which is updated once
        value = element(src, tuple(const(0) for _ in tile_axes(src))) if isinstance(src, Region) else op.args["value"]
        return (over_tile(op, (const(1),), lambda p: (_element_atomic(op, kind, dst.mins, value, dst),), ctx),)
    if not isinstance(src, Region):
        if not tile_axes(dst):
            return (_element_atomic(op, kind, dst.mins, op.args["value"], dst),)
        value = op.args["value"]
        return (over_tile(op, tile_shape(dst), lambda p: (_element_atomic(op, kind, at(dst, p), value, dst),), ctx),)
    if not tile_axes(dst):
        return (_element_atomic(op, kind, dst.mins, element(src, tuple(const(0) for _ in tile_axes(src))), dst),)
    return (over_tile(op, tile_shape(dst), lambda p: (_element_atomic(op, kind, at(dst, p), element(src, p), dst),), ctx),)


def _moved(r: Region, k: int) -> Region:
    mins = (*r.mins[:-1], r.mins[-1] + k)
    return Region(r.buffer, mins, tuple(const(1) for _ in mins), "element", r.span)


def _element_atomic(op: TileOp, kind: str, indices: tuple[Expr, ...], value: Any, dst: Region) -> TileOp:
    place = Region(dst.buffer, tuple(indices), tuple(const(1) for _ in indices), "element", dst.span)
    return replace(op, args={"kind": kind, "src": None, "dst": place, "value": cast(lift(value), dst.dtype),
                             "memory_order": op.args.get("memory_order"), "one_element": True})


# -- reductions ------------------------------------------------------------------------------------------------------------
def _reduce(op: TileOp, ctx: PassContext) -> Body:
    """Sources and results become whole fragments of their own, so that the reduction itself knows one case only."""
    src, dst = op.region("src"), op.region("dst")
    dim, axes = op.args["dim"], len(src.extents)
    if not isinstance(dim, int) or not 0 <= dim < axes:
        raise LoweringError(f"The reduced dimension ({dim}) is not one of the {axes} dimensions of {src.buffer.name}.", op.span, "reduce-dim")
    if src.static_extents() is None:
        raise LoweringError(f"The tile of {src.buffer.name} that is reduced has an extent that is not constant.", op.span, "reduce-shape")
    kept = tuple(e for i, e in enumerate(src.extents) if i != dim) or (const(1),)
    work = accumulator_dtype(dst.dtype)
    before: list[Stmt] = []
    source = src
    if src.buffer.scope != FRAGMENT or not src.is_whole() or src.buffer.view_of is not None:
        part = Buffer(ctx.fresh(f"{src.buffer.name}_part"), src.extents, src.dtype, FRAGMENT, op.span)
        source = whole(part)
        before = [Alloc(op.span, part), over_tile(op, src.extents, lambda p: (
            Store(op.span, part, p, Load(src.dtype, None, src.buffer, tuple(m + x for m, x in zip(src.mins, p)))),), ctx, copy=True)]
    total = Buffer(ctx.fresh(f"{dst.buffer.name}_total"), kept, work, FRAGMENT, op.span)
    reduction = replace(op, args={**op.args, "src": source, "dst": whole(total), "clear": True, "lowered": True})
    finish = over_tile(op, kept, lambda p: (_reduced(op, dst, total, p),), ctx)
    return (*before, Alloc(op.span, total), reduction, finish)


def _reduced(op: TileOp, dst: Region, total: Buffer, p: tuple[Expr, ...]) -> Store:
    from .cpu.reduce import combine

    place = _reduced_place(dst, p)
    value: Expr = Load(total.dtype, None, total, p)
    if op.args.get("clear") is False:
        value = combine(op.args["kind"], cast(Load(dst.dtype, None, dst.buffer, place), total.dtype), value, op.args.get("nan_propagate") is True)
    return Store(op.span, dst.buffer, place, cast(value, dst.dtype))


def _reduced_place(dst: Region, p: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The result lacks the reduced dimension, or keeps it with extent 1."""
    if len(dst.mins) == len(p):
        return tuple(m + x for m, x in zip(dst.mins, p))
    axes = tile_axes(dst)
    if len(axes) == len(p):
        return index_at(dst, p)
    kept = [i for i in range(len(dst.mins)) if i in axes]
    spare = [i for i in range(len(dst.mins)) if i not in axes]
    while len(kept) < len(p) and spare:
        kept.append(spare.pop(0))
    position = dict(zip(sorted(kept), p))
    return tuple(m + position[i] if i in position else m for i, m in enumerate(dst.mins))


def accumulator_dtype(dtype: str) -> str:
    """Narrow floats are accumulated in float32 and rounded once."""
    return "float32" if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else dtype


# -- scans -----------------------------------------------------------------------------------------------------------------
def _scan(op: TileOp, ctx: PassContext) -> Body:
    """Scans work in a shared tile of their own: copy in, scan, copy out."""
    src, dst = op.region("src"), op.region("dst")
    if src.static_extents() is None:
        raise LoweringError(f"The tile of {src.buffer.name} that is scanned has an extent that is not constant.", op.span, "scan-shape")
    from ..ir.buffer import SHARED_DYN

    work = Buffer(ctx.fresh(f"{src.buffer.name}_scan"), src.extents, accumulator_dtype(dst.dtype), SHARED_DYN, op.span)

    def inside(r: Region, p: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(m + x for m, x in zip(r.mins, p)) if len(r.mins) == len(p) else at(r, p)

    into = over_tile(op, src.extents, lambda p: (Store(op.span, work, p, cast(Load(src.dtype, None, src.buffer, inside(src, p)), work.dtype)),), ctx)
    out = over_tile(op, src.extents, lambda p: (Store(op.span, dst.buffer, inside(dst, p), cast(Load(work.dtype, None, work, p), dst.dtype)),), ctx)
    scan = replace(op, args={**op.args, "src": whole(work), "dst": whole(work), "lowered": True})
    return (Alloc(op.span, work), into, scan, out)


def _none(op: TileOp, ctx: PassContext) -> Body:
    return ()


_EXPANSIONS: dict[str, Callable[[TileOp, PassContext], Body]] = {
    "copy": _copy, "async_copy": _copy, "tma_copy": _bulk_copy, "im2col": _im2col, "transpose": _transpose, "fill": _fill, "clear": _fill, "atomic": _atomic,
    "reduce": _reduce, "cumsum": _scan, "cummax": _scan, "annotate": _none,
}

__all__ = ["COPIES", "GLOBAL", "accumulator_dtype", "expand_tiles", "over_tile", "substitute_body"]
