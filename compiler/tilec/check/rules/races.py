"""Elements of memory that several threads write. TileLang 0.1.15 looks for them only when asked (its race check is off by default)."""

from __future__ import annotations

from ...ir.affine import known_difference
from ...ir.buffer import GLOBAL, SHARED, SHARED_DYN, Buffer, Region
from ...ir.build import const_int
from ...ir.expr import Binary, Call, Expr, Load, Unknown, Var, equal, walk
from ...ir.stmt import For, If, Launch, Parallel, Store, TileOp, While
from ..conditions import is_input, may_select, parts, passing
from ..context import RuleContext
from ..facts import READ, Place, thread_count
from ..ranges import ranges_at
from ..registry import rule

_SPREAD = 32  # iterations of the innermost loop that no single thread runs: it takes at most 16 bytes of them


@rule("parallel-race")
def parallel_race(ctx: RuleContext):
    for place in ctx.facts.places:
        s = place.stmt
        if isinstance(s, Store) and s.buffer.scope in (GLOBAL, SHARED, SHARED_DYN) and not place.inside(While):
            yield _one_element(ctx, place, s) or _neighbours(ctx, place, s) or _blocks(ctx, place, s) or _scattered(ctx, place, s)


def _chosen(ctx: RuleContext, place: Place, about: set[Var], threads: bool = False) -> bool:
    """Whether a branch around the statement may let only one of the values pass that these variables have at the same time."""
    return place.inside(If) and may_select(ctx.facts, place, about, threads)


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
        if wrapped is None or not again or _chosen(ctx, place, set(ranks), True):
            return None
        return ctx.report(
            f"iterations that are {wrapped} apart update the same element of {s.buffer.name} on different threads; use T.atomic_add",
            s.span,
        )
    if _chosen(ctx, place, set(shared), not any(v.kind == "thread" for v in shared)):
        return None
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
    alone = [v for v in alone if not _chosen(ctx, place, {v})]
    if not alone or _ordered_blocks(ctx):
        return None
    return ctx.report(
        f"blocks that differ in {alone[0].name} update the same elements of {s.buffer.name}, in an order that is not defined; use T.atomic_add, or a result for each block",
        s.span,
    )


def _scattered(ctx: RuleContext, place: Place, s: Store):
    """An update of an element that data selects: two iterations of a parallel loop may get the same one."""
    extents = {v: const_int(e) for p in place.parents if isinstance(p, Parallel) for v, e in zip(p.vars, p.extents)}
    if not extents or not _updates(s) or thread_count(place.launch) == 1:
        return None
    at = parts(ctx.facts, *s.indices)
    if at.opaque or any(v.kind == "thread" for v in at.variables) or not at.loads or not all(_is_given(ctx, x.buffer) for x in at.loads):
        return None
    ranges = ranges_at(place)
    several = [v for v, e in extents.items() if e is not None and e > 1 and v in ranges and v in at.within and v not in at.plain]
    if not any(passing(ctx.facts, place, v, ranges, at.loads) for v in several):
        return None
    return ctx.report(
        f"iterations of the parallel loop update the elements of {s.buffer.name} that {at.loads[0].buffer.name} selects; where two select the same "
        "one, updates are lost: use T.atomic_add",
        s.span,
        severity="warning",
    )


def _is_given(ctx: RuleContext, buffer: Buffer) -> bool:
    """Whether a buffer holds data of the caller: one of his tensors, or a tile that is copied from them and nothing else."""
    if is_input(ctx.facts, buffer):
        return True
    writes = [a.stmt for a in ctx.facts.storage_uses.get(buffer.storage(), ()) if a.kind != READ]
    sources = [w.args.get("src") if isinstance(w, TileOp) and w.op == "copy" else None for w in writes]
    return bool(sources) and all(isinstance(x, Region) and is_input(ctx.facts, x.buffer) for x in sources)


def _updates(s: Store) -> bool:
    return any(isinstance(x, Load) and x.buffer is s.buffer and len(x.indices) == len(s.indices) and all(map(equal, x.indices, s.indices)) for x in walk(s.value))


def _ordered_blocks(ctx: RuleContext) -> bool:
    """Whether something may make the blocks take turns: atomics, barriers of the grid or cluster, loops that wait, code that is not understood."""
    facts = ctx.facts
    return (
        facts.has_unsupported
        or any(name.startswith(("atomic", "sync_grid", "cluster")) and not all(map(_is_on_chip, places)) for name, places in facts.by_op.items())
        or any(c.op.startswith(("atomic", "sync_grid", "cluster", "call_extern", "call_pure_extern")) for _, c in facts.calls)
        or any(isinstance(p.stmt, While) for p in facts.places)
    )


def _is_on_chip(place: Place) -> bool:
    """Whether an atomic operation concerns shared memory, of which each block has its own."""
    dst = place.stmt.args.get("dst") if isinstance(place.stmt, TileOp) and place.stmt.op == "atomic" else None
    return isinstance(dst, Region) and dst.buffer.scope in (SHARED, SHARED_DYN)


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
    if _chosen(ctx, place, variables, True):
        return None
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
