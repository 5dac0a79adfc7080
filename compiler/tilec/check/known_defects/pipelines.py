"""Defects of T.Pipelined."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import GLOBAL, Buffer, Region
from ...ir.build import const_int
from ...ir.stmt import For, TileOp
from ...source.span import Span
from ..context import RuleContext
from ..facts import READ, WRITE, Access


def _pipelines(ctx: RuleContext) -> Iterator[For]:
    for place in ctx.facts.places:
        if isinstance(place.stmt, For) and place.stmt.kind == "pipelined":
            yield place.stmt


def _stages(loop: For) -> int:
    stages = loop.attrs.get("num_stages")
    count = stages if isinstance(stages, int) else const_int(stages)
    return count or 0


def _loads(loop: For) -> Iterator[tuple[int, TileOp]]:
    """Copies from global to shared memory that stand right in the loop, with their position."""
    for position, s in enumerate(loop.body):
        if isinstance(s, TileOp) and s.op == "copy":
            src, dst = s.args.get("src"), s.args.get("dst")
            if isinstance(src, Region) and isinstance(dst, Region) and src.buffer.scope == GLOBAL and dst.buffer.is_shared():
                yield position, s


def _uses_in(ctx: RuleContext, loop: For, buffer: Buffer) -> Iterator[Access]:
    for access in ctx.facts.storage_uses.get(buffer.storage(), ()):
        if any(p is loop for p in access.place.parents):
            yield access


def copy_ahead_of_atomic(ctx: RuleContext) -> Iterator[Span | None]:
    """A loop that copies from a tensor and adds to it atomically below."""
    for loop in _pipelines(ctx):
        for _, copy in _loads(loop) if _stages(loop) >= 2 else ():
            source = copy.region("src").buffer
            if any(isinstance(a.stmt, TileOp) and a.stmt.op == "atomic" and a.kind == WRITE for a in _uses_in(ctx, loop, source)):
                yield copy.span


def read_then_copied(ctx: RuleContext) -> Iterator[Span | None]:
    """A tile whose first use in the loop reads it, and which the loop fills with a copy afterwards."""
    for loop in _pipelines(ctx):
        for _, copy in _loads(loop) if _stages(loop) >= 2 else ():
            uses = sorted(_uses_in(ctx, loop, copy.region("dst").buffer), key=lambda a: a.place.order)
            if uses and uses[0].kind == READ and uses[0].stmt is not copy and _writers(uses) == [copy]:
                yield copy.span


def _writers(uses: list[Access]) -> list[object]:
    return [a.stmt for a in uses if a.kind == WRITE]


def read_behind(ctx: RuleContext) -> Iterator[Span | None]:
    """A tile that a pipelined loop fills and somebody reads below the loop before it is written again."""
    for loop in _pipelines(ctx):
        for _, copy in _loads(loop) if _stages(loop) >= 2 else ():
            tile = copy.region("dst").buffer.storage()
            inside = [a.place.order for a in _uses_in(ctx, loop, tile)]
            if not any(a.kind == READ for a in _uses_in(ctx, loop, tile)):
                continue
            after = sorted((a for a in ctx.facts.storage_uses[tile] if a.place.order > max(inside)), key=lambda a: a.place.order)
            if after and after[0].kind == READ and not any(p in after[0].place.parents for p in _around(ctx, loop)):
                yield after[0].span or after[0].stmt.span


def _around(ctx: RuleContext, loop: For) -> tuple[object, ...]:
    """The loops around a loop: what is below it in their bodies may run before its next round."""
    place = next(p for p in ctx.facts.places if p.stmt is loop)
    return tuple(p for p in place.parents if isinstance(p, For))


def different_stages(ctx: RuleContext) -> Iterator[Span | None]:
    """Operands of products in two pipelined loops with several versions, and not as many in both."""
    seen: dict[Buffer, int] = {}
    for loop in _pipelines(ctx):
        stages = _stages(loop)
        for _, copy in _loads(loop):
            tile = copy.region("dst").buffer
            is_operand = any(isinstance(a.stmt, TileOp) and a.stmt.op == "gemm" for a in _uses_in(ctx, loop, tile))
            if is_operand and max(seen.setdefault(tile, stages), stages) >= 2 and seen[tile] != stages:
                yield loop.span
                break
