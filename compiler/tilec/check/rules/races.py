"""Elements of memory that several threads write. TileLang 0.1.15 looks for them only when asked (its race check is off by default)."""

from __future__ import annotations

from ...ir.affine import known_difference
from ...ir.buffer import GLOBAL, SHARED, SHARED_DYN
from ...ir.build import const_int
from ...ir.expr import Binary, Call, Expr, Load, Unknown, Var, equal, walk
from ...ir.stmt import For, If, Launch, Parallel, Store, While
from ..context import RuleContext
from ..facts import Place, thread_count
from ..registry import rule

_SPREAD = 32  # iterations of the innermost loop that no single thread runs: it takes at most 16 bytes of them


@rule("parallel-race")
def parallel_race(ctx: RuleContext):
    for place in ctx.facts.places:
        s = place.stmt
        if isinstance(s, Store) and s.buffer.scope in (GLOBAL, SHARED, SHARED_DYN) and not place.inside(If, While):
            yield _one_element(ctx, place, s) or _neighbours(ctx, place, s) or _blocks(ctx, place, s)


def _one_element(ctx: RuleContext, place: Place, s: Store):
    """Iterations that run on different threads and write the same element."""
    ranks = _ranks(place)
    used = {x for i in s.indices for x in walk(i) if isinstance(x, Var)}
    if not ranks or any(isinstance(x, (Load, Call, Unknown)) for i in s.indices for x in walk(i)):
        return None
    shared = [v for v in ranks if v not in used]
    if any(not _is_outside(v, place) for v in used if v not in ranks):
        return None
    mentioned = {x for x in walk(s.value) if isinstance(x, Var)}
    again = _updates(s)
    if not shared or not _meet(ranks, shared, used):
        wrapped = _wrapped(s, ranks)
        if wrapped is None or not again:
            return None
        return ctx.report(
            f"iterations that are {wrapped} apart update the same element of {s.buffer.name} on different threads; use T.atomic_add",
            s.span,
        )
    differs = any(v in mentioned for v in shared)
    who = "all iterations of the parallel loop" if len(shared) == len(ranks) else f"the iterations over {shared[-1].name}"
    if any(v.kind == "thread" for v in shared):
        who = "all threads"
        if not differs:
            return None  # one value, stored by one thread or by all
    if again:
        return ctx.report(
            f"{who} read and write the same element of {s.buffer.name}; use T.atomic_add or a reduction", s.span
        )
    if differs:
        return ctx.report(
            f"{who} write the same element of {s.buffer.name} with different values", s.span, severity="warning"
        )
    return None


def _blocks(ctx: RuleContext, place: Place, s: Store):
    """An update of an element of global memory that several blocks make: nothing in the indices tells one of the grid's axes apart."""
    launch = place.launch
    if s.buffer.scope != GLOBAL or not isinstance(launch, Launch) or not _updates(s):
        return None
    alone = [v for v, e in zip(launch.block_vars, launch.grid) if (const_int(e) or 1) > 1]
    alone = [v for v in alone if not any(x is v for i in s.indices for x in walk(i))]
    inside = {v for p in place.parents if isinstance(p, Parallel) for v in p.vars} | set(launch.block_vars) | set(launch.attrs.get("thread_vars", ()))
    loops = [p for p in place.parents if isinstance(p, For)]
    plain = inside | {p.var for p in loops if const_int(p.start) is not None and const_int(p.extent) is not None}
    if not alone or any(isinstance(x, (Load, Call, Unknown)) or isinstance(x, Var) and x not in plain for i in s.indices for x in walk(i)):
        return None
    if _ordered_blocks(ctx):
        return None
    return ctx.report(
        f"blocks that differ in {alone[0].name} update the same elements of {s.buffer.name}, in an order that is not defined; use T.atomic_add, or a result for each block",
        s.span,
    )


def _updates(s: Store) -> bool:
    return any(isinstance(x, Load) and x.buffer is s.buffer and len(x.indices) == len(s.indices) and all(map(equal, x.indices, s.indices)) for x in walk(s.value))


def _ordered_blocks(ctx: RuleContext) -> bool:
    """Whether something may make the blocks take turns: atomics, barriers of the grid or cluster, loops that wait, code that is not understood."""
    facts = ctx.facts
    return (
        facts.has_unsupported
        or any(name.startswith(("atomic", "sync_grid", "cluster")) for name, places in facts.by_op.items() if places)
        or any(c.op.startswith(("atomic", "sync_grid", "cluster", "call_extern", "call_pure_extern")) for _, c in facts.calls)
        or any(isinstance(p.stmt, While) for p in facts.places)
    )


def _ranks(place: Place) -> dict[Var, int | None]:
    """The variables that tell apart what runs at the same time, with their extents, the fastest last."""
    parallel = [p for p in place.parents if isinstance(p, Parallel)]
    if parallel:
        pairs = [(v, e) for p in parallel for v, e in zip(p.vars, p.extents)]
    else:
        launch = place.launch
        if not isinstance(launch, Launch) or place.launch is None:
            return {}
        pairs = list(zip(launch.attrs.get("thread_vars", ()), launch.threads))
        mentioned = set(_vars(place.stmt))
        pairs = [(v, e) for v, e in pairs if v in mentioned]
    return {v: const_int(e) for v, e in pairs if const_int(e) != 1}


def _vars(s) -> list[Var]:
    from ...ir.stmt import expressions

    return [x for e in expressions(s) for x in walk(e) if isinstance(x, Var)]


def _meet(ranks: dict[Var, int | None], shared: list[Var], used: set[Var]) -> bool:
    """Whether iterations over the shared variables run on different threads for sure."""
    if len(shared) == len(ranks) or any(v.kind == "thread" for v in shared):
        return True
    last = list(ranks)[-1]
    extent = ranks[last]
    return last in shared and extent is not None and extent >= _SPREAD


def _is_outside(v: Var, place: Place) -> bool:
    """A block index or the variable of a loop around: the same for all threads."""
    return v.kind == "block" or any(isinstance(p, For) and p.var is v for p in place.parents)


def _wrapped(s: Store, ranks: dict[Var, int | None]) -> int | None:
    """n where the only index is a parallel variable modulo n, which wraps around over the loop."""
    if len(s.indices) != 1 or len(ranks) != 1:
        return None
    index, (var, extent) = s.indices[0], next(iter(ranks.items()))
    if not isinstance(index, Binary) or index.op != "floormod" or index.a is not var or var.kind == "thread":
        return None
    modulus = const_int(index.b)
    return modulus if modulus is not None and extent is not None and modulus >= _SPREAD // 2 and extent > modulus else None


def _neighbours(ctx: RuleContext, place: Place, s: Store):
    """An iteration that reads what another one writes."""
    loops = [p for p in place.parents if isinstance(p, Parallel)]
    if not loops or thread_count(place.launch) == 1:
        return None
    variables = {v for p in loops for v in p.vars}
    for load in walk(s.value):
        if not isinstance(load, Load) or load.buffer is not s.buffer or len(load.indices) != len(s.indices):
            continue
        shifts = [_shift(a, b, variables) for a, b in zip(load.indices, s.indices)]
        if None not in shifts and any(shifts):
            return ctx.report(
                f"{s.buffer.name} is read at an element that another iteration of the parallel loop writes; their order is not "
                "defined, read from a copy",
                load.span or s.span,
                ("written here", s.span),
                severity="warning",
            )
    return None


def _shift(read: Expr, written: Expr, variables: set[Var]) -> int | None:
    """The distance between two indices in one parallel variable; None if they are not that alike."""
    difference = known_difference(read, written)
    if difference is None:
        return None
    return difference if any(x in variables for x in walk(written)) or difference == 0 else None
