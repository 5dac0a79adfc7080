"""Parities of waits, by running the loops around a barrier for a few iterations. PTX ISA, mbarrier.try_wait.parity: after n
completed phases the wait for parity (n - 1) % 2 returns, the other one blocks until one more phase completes."""

from __future__ import annotations

from collections import defaultdict

from ...ir.buffer import BARRIER, Buffer, Region
from ...ir.build import const_int
from ...ir.evaluate_int import evaluate
from ...ir.expr import Expr, Var
from ...ir.stmt import For, If, TileOp
from ...records import dataclass
from ..context import RuleContext
from ..facts import OPAQUE, Access, Place, argument_span, has_jump
from ..registry import rule
from .arrivals import expected, participants

_WAIT = "mbarrier_wait_parity"
_ITERATIONS = 4  # of each loop, enough to see a parity alternate over a ring of two barriers


@dataclass(slots=True)
class Event:
    """A wait for or a completion of one barrier, in one iteration."""

    op: TileOp
    index: int
    parity: int | None  # of waits


@rule("mbarrier-parity")
def parity_value(ctx: RuleContext):
    for place in ctx.facts.ops(_WAIT):
        op = place.stmt
        assert isinstance(op, TileOp)
        parity = const_int(op.args.get("parity"))
        if parity is not None and parity not in (0, 1):
            yield ctx.report(f"the parity of a phase is 0 or 1, not {parity}", argument_span(op, "parity"))


@rule("mbarrier-parity")
def phases(ctx: RuleContext):
    """Where all threads complete and await a barrier in the same loops."""
    facts = ctx.facts
    if not facts.ops(_WAIT) or facts.has_unsupported or ctx.program.attrs.get("ws_schedules"):
        return
    for buffer in facts.allocations(BARRIER):
        accesses = facts.storage_uses.get(buffer, ())
        if ctx.is_blamed(buffer) or not _all_together(accesses):
            continue
        events = _events(buffer, accesses)
        if events is not None:
            yield _first_fault(ctx, buffer, events)


def _all_together(accesses) -> bool:
    """Whether the same threads run all of the uses, in loops that run to their end."""
    accesses = [a for a in accesses if isinstance(a.stmt, TileOp)]
    kinds = {a.stmt.op for a in accesses}
    if len(accesses) == 0 or _WAIT not in kinds or not kinds <= {_WAIT, "mbarrier_arrive", "tcgen05_gemm", "tma_copy"}:
        return False
    branches = {tuple(id(p) for p in a.place.parents if isinstance(p, If)) for a in accesses}
    return len(branches) == 1 and all(
        a.kind != OPAQUE
        and isinstance(a.region, Region)
        and all(isinstance(p, (For, If)) or type(p).__name__ == "Launch" for p in a.place.parents)
        and not any(isinstance(p, For) and has_jump(p.body) for p in a.place.parents)
        for a in accesses
    )


def _events(buffer: Buffer, accesses) -> list[Event] | None:
    """What happens to the barriers of an array, in order; None if that is not certain."""
    by_stmt: dict[int, Access] = {}
    for a in accesses:
        by_stmt.setdefault(id(a.stmt), a)
    events: list[Event] = []
    ordered = sorted(by_stmt.values(), key=lambda a: a.place.order)
    try:
        _run(buffer, ordered, 0, {}, events)
    except (KeyError, ValueError):
        return None
    return events


def _run(buffer: Buffer, accesses: list[Access], depth: int, values: dict[Var, int], events: list[Event]) -> None:
    """Run the uses that share ``depth`` enclosing loops."""
    position = 0
    while position < len(accesses):
        access = accesses[position]
        loops = access.place.loops()
        if len(loops) == depth:
            _add(buffer, access, values, events)
            position += 1
            continue
        loop = loops[depth]
        inside = [a for a in accesses[position:] if loop in a.place.loops()]
        start, extent = const_int(loop.start), const_int(loop.extent)
        if start is None:
            raise ValueError("a loop of unknown start")
        for k in range(min(_ITERATIONS, _ITERATIONS if extent is None else extent)):
            _run(buffer, inside, depth + 1, {**values, loop.var: start + k * loop.step}, events)
        if extent is None or extent > _ITERATIONS:
            if position + len(inside) < len(accesses):
                raise ValueError("what follows depends on all iterations")
        position += len(inside)


def _add(buffer: Buffer, access: Access, values: dict[Var, int], events: list[Event]) -> None:
    op, region = access.stmt, access.region
    if not isinstance(op, TileOp) or region is None:
        raise ValueError("a use that is no operator")
    index = 0 if region.form == "whole" else int(evaluate(region.mins[0], values))
    if op.op == _WAIT:
        parity = op.args.get("parity")
        if not isinstance(parity, (int, Expr)):
            raise ValueError("parity")
        events.append(Event(op, index, int(evaluate(parity, values))))
    elif op.op == "mbarrier_arrive":
        if participants(access.place) != expected(buffer, index) or op.args.get("cta_id") is not None:
            raise ValueError("arrivals that are no whole phase")
        events.append(Event(op, index, None))
    elif op.op == "tcgen05_gemm":
        if expected(buffer, index) != 1:
            raise ValueError("an MMA arrives once")
        events.append(Event(op, index, None))


def _first_fault(ctx: RuleContext, buffer: Buffer, events: list[Event]):
    completed: dict[int, int] = defaultdict(int)
    last: dict[int, TileOp] = {}
    for event in events:
        if event.parity is None:
            completed[event.index] += 1
            last[event.index] = event.op
            continue
        count = completed[event.index]
        if event.parity not in (0, 1):
            return ctx.report(
                f"the awaited parity reaches {event.parity}; phases have parity 0 and 1 in turn, such as k % 2",
                argument_span(event.op, "parity"),
            )
        if count == 0:
            return None  # barrier-order tells about that
        if count % 2 == event.parity:
            name = buffer.name if const_int(buffer.shape[0]) == 1 else f"{buffer.name}[{event.index}]"
            repeated = any(e.op is event.op for e in events[: events.index(event)])
            text = (
                f"{name} completes once per iteration, so the awaited parity must alternate with it"
                if repeated
                else f"{count} phase{'s have' if count != 1 else ' has'} completed here, the last of parity {(count - 1) % 2}"
            )
            return ctx.report(
                f"{text}: waiting for parity {event.parity} returns too early or never",
                argument_span(event.op, "parity"),
                ("completes here", last[event.index].span),
            )
    return None


@rule("mbarrier-parity")
def alternation(ctx: RuleContext):
    """Where other threads complete the barrier: what one loop awaits alternates for each barrier of a ring."""
    facts = ctx.facts
    if facts.has_unsupported or ctx.program.attrs.get("ws_schedules"):
        return
    for place in facts.ops(_WAIT):
        op = place.stmt
        assert isinstance(op, TileOp)
        region, loops = op.args.get("mbar"), place.loops()
        if not isinstance(region, Region) or region.buffer.scope != BARRIER or not loops:
            continue
        visits = _visits(op, region, loops[-1])
        if visits is None or not _stays(visits) or not _completes_as_often(ctx, region.buffer.storage(), place, loops[-1]):
            continue
        yield ctx.report(
            f"{region.buffer.name} completes in every iteration, but this waits for parity {visits[0][1]} each time: the parity must "
            "alternate",
            argument_span(op, "parity"),
        )


def _visits(op: TileOp, region: Region, loop: For) -> list[tuple[int, int]] | None:
    """(barrier, parity) of the first iterations."""
    start, extent, parity = const_int(loop.start), const_int(loop.extent), op.args.get("parity")
    if start is None or (extent is not None and extent < 2) or not isinstance(parity, (int, Expr)):
        return None
    found = []
    for k in range(_ITERATIONS if extent is None else min(_ITERATIONS, extent)):
        values = {loop.var: start + k * loop.step}
        try:
            index = 0 if region.form == "whole" else int(evaluate(region.mins[0], values))
            found.append((index, int(evaluate(parity, values))))
        except (KeyError, ValueError):
            return None
    return found


def _stays(visits: list[tuple[int, int]]) -> bool:
    """Whether every barrier is awaited with one parity only, some more than once."""
    by_index: dict[int, list[int]] = defaultdict(list)
    for index, parity in visits:
        by_index[index].append(parity)
    return any(len(p) > 1 for p in by_index.values()) and all(len(set(p)) == 1 for p in by_index.values())


def _completes_as_often(ctx: RuleContext, barrier: Buffer, wait: Place, loop: For) -> bool:
    """Whether other threads arrive once in each iteration of a loop as long as this one, nobody twice."""
    arrivals = [
        a
        for a in ctx.facts.storage_uses.get(barrier, ())
        if not (isinstance(a.stmt, TileOp) and a.stmt.op in (_WAIT, "tma_copy"))
    ]
    waits = [a for a in ctx.facts.storage_uses.get(barrier, ()) if isinstance(a.stmt, TileOp) and a.stmt.op == _WAIT]
    if len(arrivals) != 1 or len(waits) != 1 or arrivals[0].kind == OPAQUE:
        return False
    place = arrivals[0].place
    loops = place.loops()
    if not loops or const_int(loops[-1].extent) is None or const_int(loops[-1].extent) != const_int(loop.extent):
        return False
    branch = [p for p in place.parents if isinstance(p, If)]
    mine = [p for p in wait.parents if isinstance(p, If)]
    if branch == mine or not branch or not mine:
        return False
    return loops[-1] not in wait.parents and _last_is(place, loops[-1]) and _last_is(wait, loop)


def _last_is(place: Place, loop: For) -> bool:
    return bool(place.parents) and place.parents[-1] is loop
