"""Pipelined loops. TileLang 0.1.15, language/loop.py, src/transform/pipeline_planning.cc."""

from __future__ import annotations

from ...ir.buffer import Buffer, Region
from ...ir.build import const_int
from ...ir.expr import equal
from ...ir.stmt import Alloc, For, Let, Stmt, Store, TileOp, walk
from ..context import RuleContext
from ..registry import rule


def pipelined(ctx: RuleContext) -> list[For]:
    return [p.stmt for p in ctx.facts.places if isinstance(p.stmt, For) and p.stmt.kind == "pipelined"]


def option_span(loop: For, name: str):
    return loop.attrs.get("spans", {}).get(name) or loop.span


@rule("pipeline-num-stages")
def num_stages(ctx: RuleContext):
    for loop in pipelined(ctx):
        stages = const_int(loop.attrs.get("num_stages"))
        if stages is not None and stages < 0:
            yield ctx.report(f"num_stages is {stages}; it must be at least 0", option_span(loop, "num_stages"))


def int_list(value) -> list[int] | None:
    if not isinstance(value, (list, tuple)):
        return None
    found = [const_int(v) for v in value]
    return None if any(v is None for v in found) else found  # type: ignore[return-value]


@rule("pipeline-empty")
def empty(ctx: RuleContext):
    """A body of names alone counts as one statement (TileLang 0.1.15, PipelinePlanning)."""
    for loop in pipelined(ctx):
        order, stage = int_list(loop.attrs.get("order")), int_list(loop.attrs.get("stage"))
        if order is None or stage is None or scheduled(loop) != [] or const_int(loop.extent) == 0:
            continue
        if len(order) == len(stage) > 1:
            yield ctx.report(
                f"order and stage schedule {len(order)} statements, but nothing in the loop can be scheduled", option_span(loop, "order")
            )


@rule("pipeline-annotation")
def schedules(ctx: RuleContext):
    for loop in pipelined(ctx):
        given = [name for name in ("order", "stage") if loop.attrs.get(name) is not None]
        if not given or loop.attrs.get("group") is not None:  # groups of statements, of releases before 0.1.15
            continue
        order, stage = int_list(loop.attrs.get("order")), int_list(loop.attrs.get("stage"))
        if given == ["order"]:
            yield ctx.report(
                "order without stage is ignored; the loop is not pipelined by it",
                option_span(loop, "order"),
                severity="warning",
            )
            continue
        if any(int_list(loop.attrs.get(name)) is None for name in given):
            continue
        fault = _fault(ctx, loop, order, stage)
        if fault is not None:
            yield ctx.report(fault[1], option_span(loop, fault[0]))


def _fault(ctx: RuleContext, loop: For, order: list[int] | None, stage: list[int] | None) -> tuple[str, str] | None:
    if order is not None and stage is not None and len(order) != len(stage):
        return "stage", f"order has {len(order)} entries, stage {len(stage)}; both have one for each statement"
    statements = scheduled(loop)
    if not statements:  # nothing to schedule: the loop is dropped
        return None
    if stage is not None and len(stage) != len(statements):
        return "stage", f"stage has {len(stage)} entries for {len(statements)} statements"
    if order is not None and len(set(order)) != len(order):
        twice = next(o for o in order if order.count(o) > 1)
        return "order", f"two statements have order {twice}; every statement has its own"
    if stage is None or order is None or ctx.facts.has_unsupported:
        return None
    return _dependence(statements, order, stage)


def _dependence(statements: list[Stmt], order: list[int], stage: list[int]) -> tuple[str, str] | None:
    for i, producer in enumerate(statements):
        made = writes(producer)
        for j in range(i + 1, len(statements)):
            shared = made & reads(statements[j])
            if not shared:
                continue
            name = next(iter(shared)).name
            if stage[j] < stage[i]:
                return (
                    "stage",
                    f"statement {j + 1} reads {name} in stage {stage[j]}, but statement {i + 1} writes it in the "
                    f"later stage {stage[i]}",
                )
            if stage[j] == stage[i] and order[j] < order[i]:
                return (
                    "order",
                    f"statement {j + 1} reads {name}, which statement {i + 1} of the same stage writes after it",
                )
    return None


def scheduled(loop: For) -> list[Stmt] | None:
    """The statements that take an entry of order and stage; None where that is not sure."""
    found = [s for s in loop.body if not isinstance(s, (Let, Alloc))]
    return found if all(isinstance(s, TileOp) or type(s).__name__ == "Parallel" for s in found) else None


def writes(s: Stmt) -> set[Buffer]:
    found: set[Buffer] = set()
    for inner in walk((s,)):
        if isinstance(inner, Store):
            found.add(inner.buffer.storage())
        elif isinstance(inner, TileOp):
            from ...ir.ops import OPS

            spec = OPS.get(inner.op)
            found |= {
                r.buffer.storage()
                for n, r in inner.args.items()
                if isinstance(r, Region) and spec is not None and n in spec.writes
            }
    return found


def reads(s: Stmt) -> set[Buffer]:
    from ...ir.expr import Load
    from ...ir.expr import walk as walk_expr
    from ...ir.ops import OPS
    from ...ir.stmt import expressions

    found: set[Buffer] = set()
    for inner in walk((s,)):
        for e in expressions(inner):
            found |= {x.buffer.storage() for x in walk_expr(e) if isinstance(x, Load)}
        if isinstance(inner, TileOp):
            spec = OPS.get(inner.op)
            found |= {
                r.buffer.storage()
                for n, r in inner.args.items()
                if isinstance(r, Region) and spec is not None and n in spec.reads
            }
    return found


@rule("pipeline-nested")
def nested(ctx: RuleContext):
    for loop in pipelined(ctx):
        inner = next((s for s in loop.body if isinstance(s, For) and s.kind == "pipelined"), None)
        if (
            inner is not None
            and (const_int(loop.attrs.get("num_stages")) or 0) > 0
            and (const_int(inner.attrs.get("num_stages")) or 0) > 0
        ):
            yield ctx.report(
                "a pipelined loop directly inside a pipelined loop: the outer one is not pipelined",
                loop.span,
                ("the inner loop", inner.span),
            )


# -- two writers ---------------------------------------------------------------------------------
@rule("pipeline-write-conflict", per_target=True)
def write_conflict(ctx: RuleContext):
    """PipelinePlanning refuses a tile that a copy fills and a later statement of the loop writes again. Where copies go through
    the tensor memory accelerator, TileLang has split the loop between warps before."""
    if ctx.target is None or ctx.target.kind != "cuda" or ctx.target.tma:
        return
    for loop in pipelined(ctx):
        stages = const_int(loop.attrs.get("num_stages"))
        if stages is None or stages < 1 or loop.attrs.get("order") is not None or loop.attrs.get("stage") is not None:
            continue
        found = _second_write(loop)
        if found is not None:
            first, second, buffer = found
            yield ctx.report(
                f"{buffer.name} is written again in the same iteration of a pipelined loop, which {ctx.target.name} cannot overlap; "
                "use a second tile or num_stages=0",
                second.span,
                ("the copy that fills it", first.span),
                (f"{buffer.name}", buffer.span),
            )


def _second_write(loop: For) -> tuple[TileOp, Stmt, Buffer] | None:
    for number, first in enumerate(loop.body):
        if not isinstance(first, TileOp) or first.op != "copy":
            continue
        src, dst = first.region("src"), first.region("dst")
        if src.buffer.scope != "global" or not dst.buffer.is_shared():
            continue
        for later in loop.body[number + 1 :]:
            second = _writer(later, dst)
            if second is not None:
                return first, second, dst.buffer
    return None


def _writer(s: Stmt, tile: Region) -> Stmt | None:
    """A statement in ``s`` that writes part of the tile for sure."""
    from ...ir.ops import OPS

    for inner in walk((s,)):
        if isinstance(inner, Store) and inner.buffer is tile.buffer and tile.is_whole():
            return inner
        if not isinstance(inner, TileOp) or inner.op not in OPS:
            continue
        for name in OPS[inner.op].writes:
            region = inner.args.get(name)
            if isinstance(region, Region) and region.buffer is tile.buffer and overlap(region, tile):
                return inner
    return None


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions of one buffer have elements in common, for sure."""
    for low, size, other, length in zip(a.mins, a.extents, b.mins, b.extents):
        numbers = [const_int(e) for e in (low, size, other, length)]
        if any(n is None for n in numbers):
            if not (equal(low, other) and equal(size, length)):
                return False
            continue
        x, m, y, n = numbers  # type: ignore[misc]
        if x + m <= y or y + n <= x:  # type: ignore[operator]
            return False
    return True
