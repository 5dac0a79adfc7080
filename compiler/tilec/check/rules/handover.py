"""Tiles handed from some threads of a block to others through mbarriers: every wait ends, and nothing is read before it is written
or overwritten before it is read. The block is run in several orders (``block_run``)."""

from __future__ import annotations

from collections import Counter

from ...ir.buffer import BARRIER, SHARED, SHARED_DYN, Buffer, Region
from ...ir.stmt import Launch, TileOp
from ..block_run import READ, WAIT, WRITE, Key, Role, Run, Step, Unclear, roles_of
from ..context import RuleContext
from ..facts import OPAQUE
from ..registry import rule
from .arrivals import expected

_WAIT = "mbarrier_wait_parity"


@rule("barrier-deadlock", "barrier-handover", "barrier-arrive-count")
def handover(ctx: RuleContext):
    facts = ctx.facts
    if not facts.ops(_WAIT) or facts.has_unsupported or ctx.program.attrs.get("ws_schedules"):
        return
    if any(ctx.is_blamed(b) for b in facts.allocations(BARRIER)):
        return
    for launch in {p.launch: None for p in facts.ops(_WAIT) if p.launch is not None}:
        try:
            yield _first_fault(ctx, launch)
        except Unclear:
            continue


def _first_fault(ctx: RuleContext, launch: Launch):
    roles = roles_of(launch, _tiles(ctx))
    stuck = Run(roles, _count).execute()
    if stuck:
        return _deadlock(ctx, roles, stuck)
    hazard = _hazard(roles, None)
    return _report_hazard(ctx, *hazard) if hazard is not None else None


def _count(key: Key) -> int | None:
    buffer, index = key
    return expected(buffer, index)


def _tiles(ctx: RuleContext) -> set[Buffer]:
    """Shared tiles that operators alone touch, always in whole or always in parts."""
    found = set()
    for buffer in ctx.facts.allocations(SHARED, SHARED_DYN):
        accesses = ctx.facts.storage_uses.get(buffer, ())
        regions = [a.region for a in accesses if a.kind != OPAQUE and isinstance(a.region, Region) and isinstance(a.stmt, TileOp)]
        if len(regions) == len(accesses) and len({r.form == "whole" for r in regions}) == 1:
            found.add(buffer)
    return found


# -- waits that never end ------------------------------------------------------------------------------------------------
def _deadlock(ctx: RuleContext, roles: list[Role], stuck: list[int]):
    run = Run(roles, _count)
    run.execute()
    if run.overrun:
        return _too_many(ctx, run.overrun[0])
    steps = [run.current(r) for r in stuck]
    waits = [s for s in steps if s.kind == WAIT]
    if not waits:
        return None
    waits.sort(key=lambda w: not run.pending.get(w.key, 0))  # type: ignore[arg-type]
    wrong = next((w for w in waits if _would_do(roles, w)), None)
    step = wrong or waits[0]
    assert step.key is not None and isinstance(step.stmt, TileOp)
    buffer, index = step.key
    name = f"{buffer.name}[{index}]" if len(buffer.attrs.get("arrive_counts", ())) > 1 else buffer.name
    done, came, wanted = run.completed.get(step.key, 0), run.pending.get(step.key, 0), expected(buffer, index)
    if wanted is not None and 0 < came < wanted and (wrong is None or done == 0):
        return ctx.report(
            f"{name} expects {wanted} arrivals a phase, but {came} {'comes' if came == 1 else 'come'} before all threads wait: the wait for parity "
            f"{step.value} never ends",
            buffer.span,
            ("the wait", step.stmt.span),
            name="barrier-arrive-count",
        )
    hint = "; the other parity would fit" if wrong is not None else ""
    return ctx.report(
        f"this wait for parity {step.value} of {name} never ends: {done} phase{'s are' if done != 1 else ' is'} complete and {came} of {wanted} "
        f"arrivals of the next have come when all threads wait{hint}",
        step.stmt.span,
        (f"{buffer.name}", buffer.span),
        *(("waits as well", w.stmt.span) for w in waits if w is not step),
    )


def _too_many(ctx: RuleContext, arrival: Step):
    assert arrival.key is not None
    buffer = arrival.key[0]
    return ctx.report(
        f"{buffer.name} expects {_count(arrival.key)} arrivals a phase, but {arrival.value} come at once: several phases complete, and the waits "
        "of their parities never end",
        buffer.span,
        ("the arrival", arrival.stmt.span),
        name="barrier-arrive-count",
    )


def _would_do(roles: list[Role], wait: Step) -> bool:
    """Whether the block runs to its end, with nothing read too early, if a wait awaits the other parity."""
    return not Run(roles, _count, flipped=wait.stmt).execute() and _hazard(roles, wait.stmt) is None


# -- data handed over too early ----------------------------------------------------------------------------------------
def _hazard(roles: list[Role], flipped) -> tuple[str, Step, Step | None] | None:
    """(what is wrong, the step, the wait before it) in an order in which one role runs as far ahead as it may."""
    if len(roles) < 2:
        return None
    handed = _handed_over(roles)
    for r in range(len(roles)):
        if any(s.kind in (READ, WRITE) and s.key in handed for s in roles[r].steps):
            found = _ahead(roles, r, handed, flipped)
            if found is not None:
                return found
    return None


def _handed_over(roles: list[Role]) -> dict[Key, tuple[int, int]]:
    """The tiles (or parts of rings) one role writes and one other reads as often: (writer, reader)."""
    found: dict[Key, tuple[int, int]] = {}
    keys = {s.key for role in roles for s in role.steps if s.kind in (READ, WRITE) and s.key is not None}
    for key in keys:
        writes = Counter(r for r, role in enumerate(roles) for s in role.steps if s.kind == WRITE and s.key == key)
        reads = Counter(r for r, role in enumerate(roles) for s in role.steps if s.kind == READ and s.key == key)
        statements = {id(s.stmt) for role in roles for s in role.steps if s.kind == WRITE and s.key == key}
        if len(writes) == len(reads) == len(statements) == 1 and set(writes) != set(reads):
            (w, written), (r, read) = *writes.items(), *reads.items()
            if written == read and not roles[w].cut and not roles[r].cut:
                found[key] = (w, r)
    return found


def _ahead(roles: list[Role], first: int, handed: dict[Key, tuple[int, int]], flipped):
    """The first hazard while role ``first`` runs ahead."""
    written: Counter[Key] = Counter()
    read: Counter[Key] = Counter()
    result: list[tuple[str, Step, Step | None]] = []

    def seen(run: Run, r: int, step: Step) -> bool:
        if step.key not in handed or step.kind not in (READ, WRITE):
            return False
        assert step.key is not None
        if step.kind == READ:
            read[step.key] += 1
            if read[step.key] > written[step.key]:
                result.append(("read", step, _wait_before(roles[r], run.at[r] - 1)))
        else:
            written[step.key] += 1
            if written[step.key] > read[step.key] + 1:
                result.append(("write", step, _wait_before(roles[r], run.at[r] - 1)))
        return bool(result)

    Run(roles, _count, first=first, flipped=flipped, seen=seen).execute()
    return result[0] if result else None


def _wait_before(role: Role, at: int) -> Step | None:
    """The wait before a step that is in the same round: with no other use of the same tile between."""
    for step in reversed(role.steps[:at]):
        if step.kind == WAIT:
            return step
        if step.stmt is role.steps[at].stmt:
            return None
    return None


def _report_hazard(ctx: RuleContext, kind: str, step: Step, wait: Step | None):
    assert step.key is not None and step.stmt is not None
    tile = step.key[0].name
    what = f"{tile} may be read before it has been written" if kind == "read" else f"{tile} may be overwritten before it has been read"
    if wait is None or wait.key is None:
        return ctx.report(f"{what}: nothing waits here for the threads that {'write' if kind == 'read' else 'read'} it",
                          step.stmt.span, name="barrier-handover")  # fmt: skip
    return ctx.report(
        f"{what}: this wait for parity {wait.value} of {wait.key[0].name} passes too early",
        wait.stmt.span,
        (f"{kind}s {tile}", step.stmt.span),
        name="barrier-handover",
    )
