"""Defects of atomic operations and reducers."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import const_int
from ...ir.expr import Cast, Const, Expr, Load, Var, walk
from ...ir.stmt import If, Let, Parallel, Stmt, TileOp, bodies, expressions
from ...source.span import Span
from ..context import RuleContext

HALVES = ("float16", "bfloat16")
VECTORISED = ("float16", "bfloat16", "float32")


def _atomics(ctx: RuleContext, *kinds: str) -> Iterator[tuple[TileOp, tuple[Stmt, ...]]]:
    for place in ctx.facts.ops("atomic"):
        if isinstance(place.stmt, TileOp) and place.stmt.args.get("kind") in kinds:
            yield place.stmt, place.parents


def whole_buffer(ctx: RuleContext) -> Iterator[Span | None]:
    for op, parents in _atomics(ctx, "add", "max", "min"):
        dst, src = op.args["dst"], op.args.get("src")
        if not isinstance(src, Region) or src.form not in ("element", "corner") or dst.form != "whole" or any(const_int(e) != 1 for e in dst.extents):
            continue
        loops = {v for p in parents if isinstance(p, Parallel) for v in p.vars}
        if any(isinstance(x, Var) and (x.kind == "thread" or x in loops) for i in src.mins for x in walk(i)):
            yield op.span


def integer_quads(ctx: RuleContext) -> Iterator[Span | None]:
    for op, _ in _atomics(ctx, "addx4"):
        if dtypes.is_int(op.args["dst"].dtype):
            yield op.span


def half_extremum(ctx: RuleContext) -> Iterator[Span | None]:
    for op, _ in _atomics(ctx, "max", "min"):
        value = op.args.get("value")
        if op.args["dst"].dtype in HALVES and (isinstance(value, Const) or isinstance(value, Cast) and value.a.dtype == "float32"):
            yield op.span


def tile_order(ctx: RuleContext) -> Iterator[Span | None]:
    for op, _ in _atomics(ctx, "add"):
        src, order = op.args.get("src"), op.args.get("memory_order")
        if not isinstance(src, Region) or order in (None, "relaxed") or op.args["dst"].dtype not in VECTORISED:
            continue
        width = const_int(src.extents[-1])
        if width is not None and width > 1 and width % 2 == 0:
            yield op.span


def extremum_previous(ctx: RuleContext) -> Iterator[Span | None]:
    for place, call in ctx.facts.calls:
        if call.op in ("atomic_max", "atomic_min"):
            yield call.span or place.stmt.span


def read_moved_behind(ctx: RuleContext) -> Iterator[Span | None]:
    """``v = A[i]`` and an atomic on A below it, with a use of v below that, in an if without else."""
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, If) or s.other:
            continue
        for position, let in enumerate(s.then):
            if not isinstance(let, Let):
                continue
            read = {x.buffer for x in walk(let.value) if isinstance(x, Load)}
            rest = s.then[position + 1:]
            changed = next((n for n, t in enumerate(rest) if isinstance(t, TileOp) and t.op == "atomic" and t.region("dst").buffer in read), None)
            if changed is not None and any(_mentions(t, let.var) for t in rest[changed + 1:]):
                yield let.span


def _mentions(s: Stmt, var: Var) -> bool:
    return any(x is var for e in expressions(s) for x in walk(e)) or any(_mentions(t, var) for body in bodies(s) for t in body)


def reducer_batch(ctx: RuleContext) -> Iterator[Span | None]:
    for place in ctx.facts.ops("finalize_reducer"):
        op = place.stmt
        assert isinstance(op, TileOp)
        batch, reducer = op.args.get("batch"), op.args.get("reducer")
        count = const_int(batch) if isinstance(batch, Expr) else batch
        shape = reducer.buffer.static_shape() if isinstance(reducer, Region) else None
        if isinstance(count, int) and shape is not None and 1 < count < _product(shape):
            yield op.arg_spans.get("batch") or op.span


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


