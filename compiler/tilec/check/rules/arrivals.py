"""Arrivals at mbarriers against the number a barrier expects. PTX ISA, mbarrier: a phase ends with the expected arrivals; fewer and
a wait never returns, more and they count for the next phase. In TileLang every thread that comes to T.barrier_arrive arrives."""

from __future__ import annotations

from collections import defaultdict

from ...ir.buffer import BARRIER, Buffer, Region
from ...ir.build import const_int
from ...ir.evaluate_int import evaluate
from ...ir.expr import Binary, Expr, Var, walk
from ...ir.stmt import For, If, Launch, TileOp, While
from ..context import RuleContext
from ..facts import OPAQUE, Access, Place, has_jump, static_ints
from ..registry import rule
from .barriers import barrier_key

_WAIT = "mbarrier_wait_parity"


@rule("barrier-arrive-count")
def arrive_count(ctx: RuleContext):
    facts = ctx.facts
    if not facts.ops(_WAIT) or facts.has_unsupported or ctx.program.attrs.get("ws_schedules"):
        return
    for buffer in facts.allocations(BARRIER):
        if ctx.is_blamed(buffer):
            continue
        for index, accesses in _by_index(facts.storage_uses.get(buffer, ())).items():
            yield _check(ctx, buffer, index, accesses)


def _by_index(accesses) -> dict[int, list[Access]]:
    """The uses of each barrier of an array; nothing if one is not known."""
    found: dict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        key = barrier_key(access.region) if access.kind != OPAQUE and isinstance(access.region, Region) else None
        if key is None:
            return {}
        found[key[1]].append(access)
    return found


def _check(ctx: RuleContext, buffer: Buffer, index: int, accesses: list[Access]):
    waits = [a for a in accesses if isinstance(a.stmt, TileOp) and a.stmt.op == _WAIT]
    others = [a for a in accesses if a not in waits and not _adds_bytes(a)]
    name = buffer.name if const_int(buffer.shape[0]) == 1 else f"{buffer.name}[{index}]"
    if not waits or any(_carries(ctx, buffer, index)):
        return None
    if not others:
        first = next((w for w in waits if _blocks_at_once(w)), None)
        hint = "; T.tma_copy adds the bytes to wait for, T.barrier_arrive must come too" if len(waits) < len(accesses) else ""
        return None if first is None else ctx.report(
            f"nothing arrives at {name}, so this wait never ends{hint}", first.stmt.span, (f"{name}", buffer.span)
        )
    count = expected(buffer, index)
    if count is None or any(not (isinstance(a.stmt, TileOp) and a.stmt.op == "mbarrier_arrive") for a in others):
        return None
    if any(isinstance(a.stmt, TileOp) and a.stmt.args.get("cta_id") is not None for a in others):
        return None
    loops = _loops(accesses[0].place)
    if loops is None or any(_loops(a.place) != loops for a in accesses):
        return None
    arrivals = [participants(a.place) for a in others]
    if any(n is None for n in arrivals):
        return None
    total = sum(n for n in arrivals if n is not None)
    if any(total == count * phases for phases in range(1, len(waits) + 1)):
        return None
    each = " an iteration" if loops else ""
    effect = "a wait for it never returns" if total < count else "the surplus counts for the next phase"
    return ctx.report(
        f"{name} expects {count} arrival{'s' if count != 1 else ''} a phase, but {total} thread{'s' if total != 1 else ''} "
        f"arrive{'s' if total == 1 else ''}{each}: {effect}",
        buffer.span,
        ("the arrival", others[0].stmt.span),
        ("the wait", waits[0].stmt.span),
        severity="warning" if total > count and any(map(_adds_bytes, accesses)) else None,  # the bytes hold the phase open
        buffer=buffer,
    )


def _adds_bytes(access: Access) -> bool:
    return isinstance(access.stmt, TileOp) and access.stmt.op in ("tma_copy", "mbarrier_expect_tx")


def _carries(ctx: RuleContext, buffer: Buffer, index: int):
    """Operators whose own completion arrives at the barrier."""
    for place in ctx.facts.places:
        if isinstance(place.stmt, TileOp) and place.stmt.op not in (_WAIT, "mbarrier_arrive", "tma_copy", "mbarrier_expect_tx"):
            for value in place.stmt.args.values():
                if isinstance(value, Region) and value.buffer.storage() is buffer:
                    yield barrier_key(value) in (None, (buffer, index))


def expected(buffer: Buffer, index: int) -> int | None:
    counts = buffer.attrs.get("arrive_counts", ())
    return const_int(counts[index]) if 0 <= index < len(counts) else None


def _loops(place: Place) -> list[For] | None:
    """The loops around; None where iterations may be cut short or are not known."""
    if place.inside(While) or any(isinstance(p, For) and has_jump(p.body) for p in place.parents):
        return None
    return place.loops()


def _blocks_at_once(wait: Access) -> bool:
    """Whether the first wait is for the phase of parity 0, which only arrivals end."""
    parity = wait.stmt.args.get("parity") if isinstance(wait.stmt, TileOp) else None
    if const_int(parity) == 0:
        return True
    starts = {p.var: const_int(p.start) for p in wait.place.parents if isinstance(p, For)}
    if not isinstance(parity, Expr) or None in starts.values():
        return False
    try:
        return evaluate(parity, starts) == 0
    except (KeyError, ValueError):
        return False


def participants(place: Place) -> int | None:
    """How many threads of a block come to a statement; None if that depends on more than their indices."""
    found = thread_set(place)
    return None if found is None else sum(found)


def thread_set(place: Place) -> list[bool] | None:
    """Which threads of a block come to a statement."""
    launch = place.launch
    extents = static_ints(launch.threads) if isinstance(launch, Launch) else None
    if launch is None or extents is None or not 0 < extents[0] * extents[1] * extents[2] <= 1024:
        return None
    tx = launch.attrs.get("thread_vars", (None,))[0]
    conditions: list[tuple[Expr, bool]] = []
    for number, parent in enumerate(place.parents):
        if isinstance(parent, If):
            inner = place.parents[number + 1] if number + 1 < len(place.parents) else place.stmt
            conditions.append((parent.cond, any(s is inner for s in parent.then)))
    if not conditions:
        return [True] * (extents[0] * extents[1] * extents[2])
    if extents[1] != 1 or extents[2] != 1 or any(not _of_thread(c, tx) for c, _ in conditions):
        return None
    try:
        return [all(bool(evaluate(c, {tx: t})) == wanted for c, wanted in conditions) for t in range(extents[0])]
    except (KeyError, ValueError):
        return None


def _of_thread(cond: Expr, tx: Var | None) -> bool:
    return isinstance(cond, Binary) and all(not isinstance(e, Var) or e is tx for e in walk(cond))
