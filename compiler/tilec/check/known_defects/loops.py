"""Defects of loops."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import FRAGMENT
from ...ir.build import const_int
from ...ir.expr import Binary, Expr, Load, Var, children, walk
from ...ir.stmt import For, If, Jump, Parallel, Stmt, TileOp, expressions
from ...source.span import Span
from ..context import RuleContext
from ..facts import Access, thread_count


def _loops(ctx: RuleContext, kind: str) -> Iterator[For]:
    for place in ctx.facts.places:
        if isinstance(place.stmt, For) and place.stmt.kind == kind:
            yield place.stmt


def vector_start(ctx: RuleContext) -> Iterator[Span | None]:
    for s in _loops(ctx, "vectorized"):
        if const_int(s.start) not in (0, None):
            yield s.span


def vector_break(ctx: RuleContext) -> Iterator[Span | None]:
    for s in _loops(ctx, "vectorized"):
        yield from _breaks(s.body)


def unrolled_break(ctx: RuleContext) -> Iterator[Span | None]:
    for s in _loops(ctx, "unroll"):
        if s.attrs.get("explicit") is True:
            yield from _breaks(s.body)


def _breaks(body: tuple[Stmt, ...]) -> Iterator[Span | None]:
    """The breaks that leave the loop with this body."""
    for s in body:
        if isinstance(s, Jump) and s.kind == "break":
            yield s.span
        elif isinstance(s, If):
            yield from _breaks(s.then)
            yield from _breaks(s.other)


def persistent_tail(ctx: RuleContext) -> Iterator[Span | None]:
    for place in ctx.facts.places:
        s = place.stmt
        domain = s.attrs.get("persistent") if isinstance(s, For) else None
        if isinstance(domain, tuple) and len(domain) == 2:
            columns = const_int(domain[1])
            if columns is not None and columns % 8:
                yield s.span


# -- guards ------------------------------------------------------------------------------------------
def twin_guards(ctx: RuleContext) -> Iterator[Span | None]:
    """Two ifs of a loop that do not depend on it and differ in nothing but the buffers they read."""
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, For) or s.kind == "pipelined":
            continue
        guards = [t for t in s.body if isinstance(t, If) and not t.other and _is_fixed(t.cond, s.var)]
        for position, second in enumerate(guards[1:], 1):
            if any(_twins(first.cond, second.cond) for first in guards[:position]):
                yield second.span


def _is_fixed(cond: Expr, var: Var) -> bool:
    parts = list(walk(cond))
    return any(isinstance(x, Load) for x in parts) and all(x is not var and not (isinstance(x, Var) and x.kind == "let") for x in parts)


def _twins(a: Expr, b: Expr) -> bool:
    """The same form, with other buffers somewhere."""
    return _same_form(a, b) and [x.buffer for x in walk(a) if isinstance(x, Load)] != [x.buffer for x in walk(b) if isinstance(x, Load)]


def _same_form(a: Expr, b: Expr) -> bool:
    if type(a) is not type(b) or a.dtype != b.dtype or getattr(a, "op", None) != getattr(b, "op", None):
        return False
    mine, theirs = children(a), children(b)
    if not mine and not theirs and not isinstance(a, Load):
        return a is b or getattr(a, "value", a) == getattr(b, "value", b)
    return len(mine) == len(theirs) and all(map(_same_form, mine, theirs))


# -- parallel loops ----------------------------------------------------------------------------------
def periodic_index(ctx: RuleContext) -> Iterator[Span | None]:
    """``B[j % K]`` where j is the inner variable of two and its extent no multiple of K."""
    for place in ctx.facts.places:
        loop = next((p for p in reversed(place.parents) if isinstance(p, Parallel)), None)
        if loop is None or len(loop.vars) != 2 or const_int(loop.extents[0]) in (None, 1):
            continue
        inner, extent = loop.vars[1], const_int(loop.extents[1])
        for e in expressions(place.stmt):
            for load in (x for x in walk(e) if isinstance(x, Load)):
                if extent is not None and any(_misses(i, inner, extent) for i in load.indices):
                    yield load.span or place.stmt.span


def _misses(index: Expr, inner: Var, extent: int) -> bool:
    for x in walk(index):
        if isinstance(x, Binary) and x.op == "floormod" and x.a is inner:
            period = const_int(x.b)
            if period is not None and 1 < period < extent and extent % period:
                return True
    return False


def smaller_loop(ctx: RuleContext) -> Iterator[Span | None]:
    """Confirmed for one-dimensional fragments where the smaller loop gives every thread the same number of elements."""
    for buffer in ctx.facts.allocations(FRAGMENT):
        shape = buffer.static_shape()
        uses = ctx.facts.storage_uses.get(buffer, ())
        if shape is None or len(shape) != 1 or any(isinstance(a.stmt, TileOp) and a.stmt.op not in ("copy", "clear", "fill") for a in uses):
            continue
        loops = {id(loop): (loop, extent) for a in uses for loop, extent in _covered(a)}
        threads = thread_count(uses[0].place.launch) if uses else None
        if not threads or not loops:
            continue
        smallest = min(extent for _, extent in loops.values())
        if smallest % threads == 0 and smallest < shape[0]:
            yield next(loop.span for loop, extent in loops.values() if extent == smallest)


def _covered(a: Access) -> Iterator[tuple[Parallel, int]]:
    """The loop over one axis whose variable alone is the index."""
    loop = next((p for p in reversed(a.place.parents) if isinstance(p, Parallel)), None)
    if loop is not None and a.indices is not None and len(loop.vars) == 1 and len(a.indices) == 1 and a.indices[0] is loop.vars[0]:
        extent = const_int(loop.extents[0])
        if extent is not None:
            yield loop, extent


