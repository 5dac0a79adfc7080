"""Layouts that the user writes: T.Parallel(loop_layout=), T.copy(loop_layout=), T.annotate_layout. TileLang 0.1.15,
transform/layout_inference (annotations, validator), op/parallel.cc, op/scan.cc."""

from __future__ import annotations

from itertools import product
from typing import Any

from ...ir.buffer import FRAGMENT, SHARED, SHARED_DYN, Buffer, Region, tile_axes
from ...ir.build import const_int
from ...ir.evaluate_int import evaluate
from ...ir.expr import Binary, Load
from ...ir.expr import walk as walk_expr
from ...ir.layouts import LayoutValue
from ...ir.stmt import Launch, Parallel, Stmt, Store, TileOp, bodies, expressions
from ...source.span import Span
from ..context import RuleContext
from ..facts import Place, depends_on_threads, static_ints, thread_count
from ..registry import rule
from .gemm import gemms
from .wgmma import takes_wgmma


@rule("loop-layout-dim", "layout-kind", "layout-bijective")
def loop_layouts(ctx: RuleContext):
    for place in ctx.facts.places:
        found = _loop_layout(place)
        if found is None:
            continue
        value, span, extents, what = found
        if not isinstance(value, LayoutValue):
            shown = _wrong_kind(value)
            if shown:
                yield ctx.report(f"loop_layout is {shown}; it is a T.Fragment, which says which thread runs which iteration", span, name="layout-kind")
        elif value.kind != "fragment":
            yield ctx.report(
                "loop_layout is a layout of memory; it is a T.Fragment, which says which thread runs which iteration", span, name="layout-kind"
            )
        elif value.shape is not None:
            yield _fits(ctx, place, value, span, extents, what)


def _loop_layout(place: Place) -> tuple[Any, Span | None, tuple[int, ...] | None, str] | None:
    """The value, its place, the extents of the loop and what it is; None without one."""
    s = place.stmt
    if isinstance(s, Parallel) and s.attrs.get("loop_layout") is not None:
        boxes = [s]
        while len(boxes[-1].body) == 1 and isinstance(boxes[-1].body[0], Parallel):
            boxes.append(boxes[-1].body[0])
        if any(b.attrs.get("loop_layout") is not None for b in boxes[1:]):
            return None
        extents = static_ints(e for b in boxes for e in b.extents)
        span = s.attrs.get("spans", {}).get("loop_layout") or s.span
        return s.attrs["loop_layout"], span, extents if extents is not None else None, f"the loop has {sum(len(b.vars) for b in boxes)}"
    if isinstance(s, TileOp) and s.op == "copy" and s.args.get("loop_layout") is not None:
        src = s.args.get("src")
        if not isinstance(src, Region):
            return None
        axes = tile_axes(src)
        return s.args["loop_layout"], s.arg_spans.get("loop_layout") or s.span, static_ints(src.extents[i] for i in axes), f"the copy has {len(axes)}"
    return None


def _wrong_kind(value: Any) -> str | None:
    if isinstance(value, str):
        return f"the string {value!r}"
    if isinstance(value, (bool, int, float)):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "a tuple" if isinstance(value, tuple) else None


def _fits(ctx: RuleContext, place: Place, value: LayoutValue, span: Span | None, extents: tuple[int, ...] | None, what: str):
    shape = static_ints(value.shape or ())
    if extents is None or shape is None:
        return None
    if _touches_fragment(place.stmt):
        if len(shape) != len(extents):
            return ctx.report(
                f"loop_layout describes {len(shape)} dimension{'s' if len(shape) != 1 else ''}, but {what}", span, name="loop-layout-dim"
            )
    elif _size(shape) != _size(extents):
        return ctx.report(
            f"loop_layout describes {_by(shape)} iterations, but the loop runs over {_by(extents)}", span, name="loop-layout-dim"
        )
    clash = _collision(value, shape)
    if clash is not None:
        return ctx.report(
            f"loop_layout gives the iterations {clash[0]} and {clash[1]} to one thread at one step", span, name="layout-bijective"
        )
    return None


def _touches_fragment(s: Stmt) -> bool:
    if isinstance(s, Store) and s.buffer.scope == FRAGMENT:
        return True
    if isinstance(s, TileOp) and any(isinstance(r, Region) and r.buffer.scope == FRAGMENT for r in s.args.values()):
        return True
    if any(isinstance(x, Load) and x.buffer.scope == FRAGMENT for e in expressions(s) for x in walk_expr(e)):
        return True
    return any(_touches_fragment(inner) for body in bodies(s) for inner in body)


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for e in shape:
        total *= e
    return total


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _collision(value: LayoutValue, shape: tuple[int, ...]) -> tuple[str, str] | None:
    """Two coordinates that the layout puts in one place, among the first of each dimension."""
    outputs = [*((value.thread,) if value.thread is not None else ()), *(value.index or ())]
    if value.index is None or not value.index or len(value.variables) != len(shape) or value.replica is not None:
        return None
    if value.kind == "fragment" and value.thread is None:
        return None
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in product(*(_coordinates(e, len(shape)) for e in shape)):
        values = dict(zip(value.variables, point))
        try:
            where = tuple(evaluate(e, values) for e in outputs)
        except (KeyError, ValueError, ZeroDivisionError):
            return None
        if where in seen:
            return str(list(seen[where])), str(list(point))
        seen[where] = point  # type: ignore[index]
    return None


def _coordinates(extent: int, rank: int) -> list[int]:
    """The first of a dimension one by one, then every eighth: enough to meet what strides and divisions run together."""
    if rank == 1:
        return list(range(min(extent, 512)))
    dense = range(min(extent, 8 if rank == 2 else 4))
    return [*dense, *range(8, min(extent, 129 if rank == 2 else 33), 8)]


# -- annotations of memory -----------------------------------------------------------------------------------------------
def _annotations(ctx: RuleContext) -> list[tuple[Launch, Buffer, LayoutValue, Span | None]]:
    found = []
    for launch in ctx.program.launches():
        places = launch.attrs.get("layout_places", {})
        for buffer, value in launch.attrs.get("layouts", {}).items():
            if isinstance(value, LayoutValue):
                found.append((launch, buffer, value, places.get(buffer)))
    return found


@rule("layout-bijective", "layout-kind")
def annotated_injective(ctx: RuleContext):
    """Two elements at one address, or in one register of one thread; a layout of another size than its buffer."""
    for _, buffer, value, span in _annotations(ctx):
        shape, extents = static_ints(value.shape or ()), buffer.static_shape()
        if ctx.is_blamed(buffer) or shape is None or not shape or value.kind == "swizzled":
            continue
        if buffer.scope in (SHARED, SHARED_DYN) and value.kind == "fragment" and buffer.ndim > 1 and value.index is not None:
            yield ctx.report(
                f"a T.Fragment says which thread holds which element; {buffer.name} is shared memory, its layout is a T.Layout",
                span,
                (buffer.name, buffer.span),
                name="layout-kind",
                buffer=buffer,
            )
            continue
        if extents is not None and _size(shape) != _size(extents):
            yield ctx.report(
                f"the layout describes {_by(shape)} elements, but {buffer.name} has {_by(extents)}",
                span,
                (buffer.name, buffer.span),
                name="layout-kind",
                buffer=buffer,
            )
            continue
        if (buffer.scope, value.kind) not in ((SHARED, "layout"), (SHARED_DYN, "layout"), (FRAGMENT, "fragment")):
            continue
        clash = _collision(value, shape)
        if clash is not None:
            yield ctx.report(
                f"this layout puts the elements {clash[0]} and {clash[1]} of {buffer.name} at one place",
                span,
                (buffer.name, buffer.span),
                buffer=buffer,
            )


@rule("layout-conflict", per_target=True)
def annotated_operands(ctx: RuleContext):
    """wgmma reads shared tiles in a swizzle of its own: a plain or padded layout does not serve it."""
    if ctx.target is None or not ctx.target.wgmma:
        return
    annotated = {b: (v, s) for _, b, v, s in _annotations(ctx) if b.scope in (SHARED, SHARED_DYN)}
    if not annotated:
        return
    for g in gemms(ctx):
        if g.place.is_thread_dependent() or g.C.buffer.scope != FRAGMENT:
            continue
        if g.op.op != "wgmma_gemm" and not takes_wgmma(g, ctx.target, thread_count(g.place.launch)):
            continue
        for name, region in (("A", g.A), ("B", g.B)):
            value, span = annotated.get(region.buffer, (None, None))
            if value is None or not _is_unswizzled(value) or not _swizzles(g, name) or ctx.is_blamed(region.buffer):
                continue
            yield ctx.report(
                f"{region.buffer.name} needs two layouts: on {ctx.target.name} this T.{g.op.op} is done by wgmma, which reads operand {name} in a swizzle, "
                "and T.annotate_layout gives another; leave the annotation away or use tilelang.layout.make_swizzled_layout",
                g.op.arg_spans.get(name) or g.op.span,
                ("the annotation", span),
                buffer=region.buffer,
            )


def _is_unswizzled(value: LayoutValue) -> bool:
    """Written with sums, products and the like: no exclusive or, which swizzles are made of."""
    if value.kind == "swizzled":
        return value.name == "make_linear_layout"
    return value.kind == "layout" and value.index is not None and not any(
        isinstance(x, Binary) and x.op in ("bitxor", "bitor", "bitand") or type(x).__name__ == "Call" for e in value.index for x in walk_expr(e)
    )


def _swizzles(g: Any, name: str) -> bool:
    """Whether wgmma's layout of the operand is a swizzle (it is plain only where rows are shorter than 32 bytes)."""
    from ...ir import dtypes

    k_major = not g.op.args.get("transpose_A") if name == "A" else bool(g.op.args.get("transpose_B"))
    narrowest = 256 // dtypes.bits(g.A.dtype)
    if k_major:
        return g.K is not None and g.K % narrowest == 0
    return name == "A" or (g.N is not None and g.N % 256 in (0, 64, 128))


@rule("fragment-constant-index")
def single_elements(ctx: RuleContext):
    """Statements outside of loops over threads reach the first element of a fragment only (add_bufstore_wrapper)."""
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, Store) or place.inside(Parallel) or place.is_thread_dependent() or place.launch is None:
            continue
        if any(loop.kind == "pipelined" for loop in place.loops()) or any(depends_on_threads(e) for e in (*s.indices, s.value)):
            continue
        loads = [x for e in (*s.indices, s.value) for x in walk_expr(e) if isinstance(x, Load)]
        for buffer, indices, span in [(s.buffer, s.indices, s.span), *((x.buffer, x.indices, x.span) for x in loads)]:
            values = [const_int(i) for i in indices]
            if buffer.scope == FRAGMENT and any(values) and not ctx.is_blamed(buffer):
                shown = ", ".join(str(v) if v is not None else "..." for v in values)
                yield ctx.report(
                    f"{buffer.name}[{shown}]: outside of T.Parallel only element 0 of a fragment can be used; its other elements belong to "
                    "one thread each",
                    span or s.span,
                    (buffer.name, buffer.span),
                )
                break


@rule("scan-layout", per_target=True)
def scan_layout(ctx: RuleContext):
    """Scans walk shared memory row by row: annotations and products may want it otherwise."""
    scans = ctx.facts.ops("cumsum", "cummax")
    if not scans or ctx.target is None:
        return
    annotated = {b: (v, s) for _, b, v, s in _annotations(ctx)}
    for place in scans:
        op = place.stmt
        assert isinstance(op, TileOp)
        for name in ("src", "dst"):
            region = op.args.get(name)
            if not isinstance(region, Region) or region.buffer.scope not in (SHARED, SHARED_DYN):
                continue
            value, span = annotated.get(region.buffer, (None, None))
            cause = ("the annotation", span) if value is not None and _is_not_linear(value) else None
            if value is None:
                cause = _swizzled_by(ctx, region.buffer, place)
            if cause is not None:
                yield ctx.report(
                    f"T.{op.op} walks {region.buffer.name} in row-major order, but {cause[0]} gives it another layout; scan another tile",
                    op.arg_spans.get(name) or op.span,
                    cause,
                )
                break


def _swizzled_by(ctx: RuleContext, buffer: Buffer, scan: Place) -> tuple[str, Span | None] | None:
    """A product that swizzles the tile; mma.sync takes it as it is if the scan comes first."""
    from ...ir import dtypes

    assert ctx.target is not None
    for g in gemms(ctx):
        if g.C.buffer.scope != FRAGMENT or not any(r.buffer is buffer for r in (g.A, g.B)):
            continue
        row = const_int(buffer.shape[-1])
        if row is None or buffer.dtype == dtypes.UNKNOWN or row * dtypes.bits(buffer.dtype) % 1024:
            continue
        if g.place.order < scan.order or takes_wgmma(g, ctx.target, thread_count(g.place.launch)):
            return f"the T.{g.op.op} in line {g.op.span.line if g.op.span else '?'}", g.op.span
    return None


def _is_not_linear(value: LayoutValue) -> bool:
    """Anything but one address that counts the elements row by row."""
    if value.kind == "swizzled":
        return value.name not in ("", "make_linear_layout")
    shape = static_ints(value.shape or ())
    if value.kind != "layout" or value.index is None or shape is None or len(shape) != len(value.variables):
        return False
    if len(value.index) != 1:
        return len(shape) > 1
    for point in product(*(_coordinates(e, len(shape)) for e in shape)):
        address = 0
        for position, extent in zip(point, shape):
            address = address * extent + position
        try:
            if evaluate(value.index[0], dict(zip(value.variables, point))) != address:
                return True
        except (KeyError, ValueError, ZeroDivisionError):
            return False
    return False
