"""mbarriers and block-wide synchronisation. PTX ISA, mbarrier; TileLang 0.1.15, language/allocate.py,
language/builtin.py."""

from __future__ import annotations

from ...ir.buffer import BARRIER, CLUSTER_BARRIER, Buffer, Region
from ...ir.build import const_int
from ...ir.stmt import If, Launch, TileOp
from ..context import RuleContext
from ..facts import OPAQUE, Access, Place, argument_span
from ..ranges import interval, ranges_at
from ..registry import rule

BARRIERS = (BARRIER, CLUSTER_BARRIER)


@rule("barrier-count")
def barrier_count(ctx: RuleContext):
    for buffer in ctx.facts.allocations(*BARRIERS):
        counts = [const_int(c) for c in buffer.attrs.get("arrive_counts", ())]
        bad = next((c for c in counts if c is not None and c < 1), None)
        if bad is not None:
            yield ctx.report(
                f"{buffer.name}: an arrival count of {bad}; a barrier expects at least one arrival",
                buffer.span,
                buffer=buffer,
            )


@rule("barrier-target", per_target=True)
def barrier_target(ctx: RuleContext):
    if ctx.target is None or ctx.target.kind != "cuda" or ctx.target.tma:
        return
    for buffer in ctx.facts.allocations(*BARRIERS):
        yield ctx.report(
            f"T.alloc_barrier needs sm_90 or later (TileLang's mbarriers); the target is {ctx.target.name}",
            buffer.span,
            buffer=buffer,
        )


@rule("barrier-index")
def barrier_index(ctx: RuleContext):
    for buffer in ctx.facts.allocations(*BARRIERS):
        count = const_int(buffer.shape[0])
        if count is None or ctx.is_blamed(buffer):
            continue
        for access in ctx.facts.storage_uses.get(buffer, ()):
            if access.region is None or access.kind == OPAQUE:
                continue
            index = const_int(access.region.mins[0])
            if access.region.form == "element" and index is not None and not -count <= index < count:
                yield ctx.report(
                    f"{buffer.name}[{index}]: {count} barrier{'s' if count != 1 else ''} "
                    f"{'were' if count != 1 else 'was'} allocated",
                    access.span,
                    (f"{buffer.name}", buffer.span),
                )
            elif access.region.form == "element" and index is None and not access.place.is_conditional():
                bounds = interval(access.region.mins[0], ranges_at(access.place), set())
                if bounds is not None and (bounds[1] >= count or bounds[0] < 0):
                    worst = bounds[1] if bounds[1] >= count else bounds[0]
                    yield ctx.report(
                        f"the index of {buffer.name} reaches {worst}: {count} barrier{'s' if count != 1 else ''} "
                        f"{'were' if count != 1 else 'was'} allocated",
                        access.span,
                        (f"{buffer.name}", buffer.span),
                    )
            elif access.region.form == "whole" and count > 1:
                yield ctx.report(
                    f"{buffer.name} holds {count} barriers; without an index the first is meant, write "
                    f"{buffer.name}[0]",
                    access.span,
                    (f"{buffer.name}", buffer.span),
                    severity=None if _never_completed(ctx, buffer, 0) else "warning",
                )


def _never_completed(ctx: RuleContext, buffer: Buffer, index: int) -> bool:
    """Whether nothing in the kernel can complete a phase of barrier ``index`` but somebody waits for it."""
    waits = False
    for access in ctx.facts.storage_uses.get(buffer, ()):
        if access.region is None or access.kind == OPAQUE:
            return False
        at = 0 if access.region.form == "whole" else const_int(access.region.mins[0])
        if at is None:
            return False
        if at == index:
            if isinstance(access.stmt, TileOp) and access.stmt.op == "mbarrier_wait_parity":
                waits = True
            else:
                return False
    return waits


# -- order and parity ----------------------------------------------------------------------------
def barrier_key(region: Region) -> tuple[Buffer, int] | None:
    index = 0 if region.form == "whole" else const_int(region.mins[0])
    return None if index is None else (region.buffer.storage(), index)


def completions(ctx: RuleContext, buffer: Buffer, index: int) -> list[Access] | None:
    """The statements that may complete a phase of one barrier; None if that cannot be told."""
    found = []
    for access in ctx.facts.storage_uses.get(buffer, ()):
        if access.kind == OPAQUE or access.region is None:
            return None
        key = barrier_key(access.region)
        if key is None:
            return None
        if key[1] == index and not (isinstance(access.stmt, TileOp) and access.stmt.op == "mbarrier_wait_parity"):
            found.append(access)
    # operators that carry their barrier in an argument outside of the reads and writes of the operator table
    for place in ctx.facts.places:
        if isinstance(place.stmt, TileOp):
            for name in ("mbar", "barrier"):
                region = place.stmt.args.get(name)
                if (
                    isinstance(region, Region)
                    and place.stmt.op != "mbarrier_wait_parity"
                    and barrier_key(region) == (buffer, index)
                ):
                    if not any(a.stmt is place.stmt for a in found):
                        found.append(
                            Access(buffer, "read", place, argument_span(place.stmt, name), region=region, argument=name)
                        )
    return found


def waits(ctx: RuleContext) -> list[tuple[Place, TileOp, Buffer, int]]:
    found = []
    for place in ctx.facts.ops("mbarrier_wait_parity"):
        op = place.stmt
        assert isinstance(op, TileOp)
        region = op.args.get("mbar")
        key = barrier_key(region) if isinstance(region, Region) else None
        if key is not None and key[0].scope in BARRIERS and not ctx.is_blamed(key[0]):
            found.append((place, op, *key))
    return found


@rule("barrier-order")
def barrier_order(ctx: RuleContext):
    """In straight-line code of all threads, a wait for the first phase before everything that could complete it."""
    if ctx.facts.has_unsupported:
        return
    for place, op, barrier, index in waits(ctx):
        if const_int(op.args.get("parity")) != 0 or any(not isinstance(p, Launch) for p in place.parents):
            continue
        sources = completions(ctx, barrier, index)
        if not sources or any(s.place.launch is not place.launch for s in sources):
            continue
        if all(s.place.order > place.order for s in sources):
            yield ctx.report(
                f"this waits for {barrier.name} before anything completes it: the statement that does comes later",
                op.span,
                ("completes here", sources[0].stmt.span),
            )


@rule("cluster-barrier")
def remote_arrival(ctx: RuleContext):
    for place in ctx.facts.ops("mbarrier_arrive"):
        op = place.stmt
        assert isinstance(op, TileOp)
        region = op.args.get("mbar")
        if op.args.get("cta_id") is not None and isinstance(region, Region) and region.buffer.scope == BARRIER:
            yield ctx.report(
                f"{region.buffer.name} is a barrier of one block; another block can arrive at a T.alloc_cluster_barrier only",
                op.span,
                (f"{region.buffer.name}", region.buffer.span),
            )


# -- block-wide barriers -------------------------------------------------------------------------
@rule("sync-divergence")
def sync_divergence(ctx: RuleContext):
    from .arrivals import thread_set

    for place in ctx.facts.ops("sync_threads"):
        op = place.stmt
        assert isinstance(op, TileOp)
        if op.args.get("barrier_id") is not None or op.args.get("arrive_count") is not None or not place.inside(If):
            continue
        found = thread_set(place)
        if found is None or not any(found) or all(all(w) or not any(w) for w in _warps(found)):
            continue
        yield ctx.report(
            f"only {sum(found)} of {len(found)} threads come here, which splits a warp; a block-wide barrier needs whole warps",
            op.span,
            ("the condition", next(p.span for p in reversed(place.parents) if isinstance(p, If))),
        )


@rule("warp-reduce")
def warp_reduce(ctx: RuleContext):
    """The exchange names all 32 lanes; what a lane that is not there contributes is undefined."""
    from .arrivals import thread_set

    for place, e in ctx.facts.calls:
        if not e.op.startswith("warp_reduce_"):
            continue
        found = thread_set(place)
        if found is None or all(not any(w) or (all(w) and len(w) == 32) for w in _warps(found)):
            continue
        yield ctx.report(
            f"T.{e.op} combines the values of the 32 threads of a warp, but {sum(found)} threads come here, which are no whole warps; "
            "let all of them take part, with a neutral value for those that have none",
            e.span or place.stmt.span,
        )


def _warps(threads: list[bool]) -> list[list[bool]]:
    return [threads[i : i + 32] for i in range(0, len(threads), 32)]


@rule("setmaxnreg-value")
def set_max_nreg(ctx: RuleContext):
    for place in ctx.facts.ops("set_max_nreg"):
        op = place.stmt
        assert isinstance(op, TileOp)
        count = const_int(op.args.get("count"))
        if count is not None and (count % 8 or not 24 <= count <= 256):
            yield ctx.report(
                f"set_max_nreg({count}): the register count is a multiple of 8 from 24 to 256",
                argument_span(op, "reg_count") or op.span,
            )
