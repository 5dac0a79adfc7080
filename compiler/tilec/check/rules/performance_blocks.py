"""Hints about whole blocks: stages that do not fit, grids smaller than the chip, copies that miss the tensor memory accelerator.

TileLang 0.1.15, src/cuda/op/copy_analysis.cc; CUDA driver API, cuTensorMapEncodeTiled (strides are multiples of 16 bytes)."""

from __future__ import annotations

from ...analysis.strides import element_strides
from ...ir.buffer import GLOBAL, SHARED, SHARED_DYN, Buffer, Region, tile_axes
from ...ir.build import const_int
from ...ir.stmt import For, Launch, TileOp
from ..context import RuleContext
from ..facts import static_ints
from ..registry import rule
from .capacity import _copies, _pipeline, _ranges, kib
from .performance import WIDEST, element_bytes, is_bulk

SHARED_SCOPES = (SHARED, SHARED_DYN)


@rule("pipeline-depth", per_target=True)
def pipeline_depth(ctx: RuleContext):
    """How many stages fit, where smem-capacity says that the block needs too much."""
    if not ctx.wants("pipeline-depth"):
        return
    if ctx.target is None or ctx.target.kind != "cuda":
        return
    for launch in ctx.program.launches():
        needs = _ranges(ctx, launch)
        if _peak(needs) <= ctx.target.shared_bytes:
            continue
        for loop in _loops(ctx, needs):
            stages = const_int(loop.attrs.get("num_stages")) or 0
            staged = {b for b, _, _, _, copies in needs if copies > 1 and _pipeline(ctx, b) is loop}
            fitting = [n for n in range(1, stages) if _peak(_with(needs, staged, n)) <= ctx.target.shared_bytes]
            if fitting:
                span = loop.attrs.get("spans", {}).get("num_stages") or loop.span
                yield ctx.report(
                    f"{stages} stages need {kib(_peak(needs))} of shared memory; {ctx.target.name} has {kib(ctx.target.shared_bytes)}: "
                    f"num_stages={fitting[-1]} fits ({kib(_peak(_with(needs, staged, fitting[-1])))})",
                    span,
                )


Needs = list[tuple[Buffer, int, int, int, int]]


def _peak(needs: Needs) -> int:
    points = {first for _, first, _, _, _ in needs}
    return max((sum(s * c for _, first, last, s, c in needs if first <= p <= last) for p in points), default=0)


def _with(needs: Needs, staged: set[Buffer], copies: int) -> Needs:
    return [(b, first, last, size, copies if b in staged else c) for b, first, last, size, c in needs]


def _loops(ctx: RuleContext, needs: Needs) -> list[For]:
    found: list[For] = []
    for buffer, _, _, _, copies in needs:
        loop = _pipeline(ctx, buffer) if copies > 1 else None
        if loop is not None and loop not in found and _copies(ctx, buffer) > 1:
            found.append(loop)
    return found


@rule("small-grid", per_target=True)
def small_grid(ctx: RuleContext):
    if not ctx.wants("small-grid"):
        return
    target = ctx.target
    if target is None or not target.sm_count:
        return
    for launch in ctx.program.launches():
        blocks = _blocks(launch)
        if blocks is None or not 0 < blocks < target.sm_count:
            continue
        share = round(100 * blocks / target.sm_count)
        yield ctx.report(
            f"the grid has {blocks} block{'s' if blocks != 1 else ''}; a chip of {target.name} has {target.sm_count} multiprocessors, of which at "
            f"most {share} % get work. Smaller tiles, or splitting the reduction, give more blocks",
            launch.span,
        )


def _blocks(launch: Launch) -> int | None:
    extents = static_ints(launch.grid)
    if extents is None:
        return None
    total = 1
    for e in extents:
        total *= e
    return total


@rule("missed-tma", per_target=True)
def missed_tma(ctx: RuleContext):
    if not ctx.wants("missed-tma"):
        return
    if ctx.target is None or not ctx.target.tma:
        return
    for place in ctx.facts.ops("copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        if place.is_thread_dependent() or not _crosses(op) or not is_bulk(op, place):
            continue
        reason = tma_obstacle(op)
        if reason:
            yield ctx.report(f"this copy does not go through the tensor memory accelerator: {reason}", op.span)


def _crosses(op: TileOp) -> bool:
    src, dst = op.args.get("src"), op.args.get("dst")
    if not isinstance(src, Region) or not isinstance(dst, Region):
        return False
    scopes = (src.buffer.scope, dst.buffer.scope)
    return GLOBAL in scopes and any(s in SHARED_SCOPES for s in scopes)


def tma_obstacle(op: TileOp) -> str | None:
    """What the shapes forbid, for certain."""
    src, dst = op.region("src"), op.region("dst")
    tensor = src if src.buffer.scope == GLOBAL else dst
    size = element_bytes(tensor.buffer)
    axes = tile_axes(tensor)
    row = const_int(tensor.extents[-1])
    if not size or not axes:
        return None
    if src.dtype != dst.dtype:
        return f"it converts from {src.dtype} to {dst.dtype}"
    if row is not None and row * size % WIDEST:
        return f"its rows are {row * size} bytes, no multiple of {WIDEST}"
    strides = element_strides(tensor.buffer)
    for stride in (strides or [])[:-1]:
        if stride * size % WIDEST:
            return f"the rows of {tensor.buffer.name} are {stride * size} bytes apart, no multiple of {WIDEST}"
    return None
