"""Shared tiles that threads hand to each other inside a branch that not all of them take. TileLang 0.1.15, thread_storage_sync.cc."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.evaluate_int import evaluate
from ...ir.expr import Expr, Load, Unknown, Var, equal, walk
from ...ir.stmt import Body, For, If, Let, Store, expressions
from ..context import RuleContext
from ..facts import Place, thread_count
from ..registry import rule
from .arrivals import thread_set

_WARP = 32
MOST_PAIRS = 8  # of a store and a load, in one loop: each is looked at for all threads


@rule("sync-hoisted", "sync-divergence")
def hoisted(ctx: RuleContext):
    """A branch is taken apart statement by statement, with barriers between the parts; a loop inside stays whole."""
    if not any(isinstance(p.stmt, If) for p in ctx.facts.places):
        return
    for place in ctx.facts.places:
        loop = place.stmt
        if not isinstance(loop, For) or not place.parents or not isinstance(place.parents[-1], If):
            continue
        found = _conflict(loop.body, place)
        if found is None:
            continue
        store, load = found
        branch = place.parents[-1]
        related = (("written here", store.span), ("the condition", _head(branch)))
        kind = _kind(place, branch.cond)
        if kind == "split":
            yield ctx.report(
                f"{store.buffer.name} is read where other threads wrote it, which takes a barrier in the loop, and the condition splits a warp",
                load.span or loop.span,
                *related,
                name="sync-divergence",
            )
        elif kind == "varies":
            yield ctx.report(
                f"{store.buffer.name} is read where other threads wrote it, but the condition differs between threads: TileLang moves the barrier "
                "out of the branch, where it no longer orders the two",
                load.span or loop.span,
                *related,
            )


def _head(branch: If):
    return branch.cond.span or branch.span


def _kind(place: Place, cond: Expr) -> str | None:
    """How the threads of a block take the branch: ``split`` inside a warp, ``varies`` in ways no barrier can follow, None: fine or not known."""
    launch = place.launch
    if launch is None or thread_count(launch) is None or sum(isinstance(p, If) for p in place.parents) != 1:
        return None
    threads = thread_set(place)
    if threads is not None:
        warps = [threads[i : i + _WARP] for i in range(0, len(threads), _WARP)]
        if all(all(w) or not any(w) for w in warps):
            return None
        return "split" if _long_runs(threads) else "varies"
    mine = set(launch.attrs.get("thread_vars", ()))
    inside = list(walk(cond))
    if any(isinstance(x, Unknown) or (isinstance(x, Var) and x.kind == "let") for x in inside):
        return None
    runtime = any(isinstance(x, Load) or (isinstance(x, Var) and x not in mine) for x in inside)
    return "varies" if runtime and any(x in mine for x in inside if isinstance(x, Var)) else None


def _long_runs(threads: list[bool]) -> bool:
    """Whether the threads that come stand together, a warp's number at the least."""
    runs, length = [], 0
    for taken in [*threads, False]:
        if taken:
            length += 1
        elif length:
            runs.append(length)
            length = 0
    return min(runs, default=0) >= _WARP


def _conflict(body: Body, place: Place) -> tuple[Store, Load] | None:
    """A store to shared memory and a load, in the iterations of one loop, of elements that another thread stored."""
    launch = place.launch
    if launch is None or not all(isinstance(s, (Store, Let)) for s in body):
        return None
    stores = [s for s in body if isinstance(s, Store) and s.buffer.is_shared()]
    pairs = [(s, x) for x in _loads(body) for s in stores if x.buffer is s.buffer and len(x.indices) == len(s.indices)] if stores else []
    apart = [(s, x) for s, x in pairs if not all(map(equal, x.indices, s.indices))]
    return next(((s, x) for s, x in apart[:MOST_PAIRS] if _meet(s.indices, x.indices, place)), None)


def _loads(body: Body) -> Iterator[Load]:
    for s in body:
        for e in expressions(s):
            yield from (x for x in walk(e) if isinstance(x, Load))


def _meet(written: tuple[Expr, ...], read: tuple[Expr, ...], place: Place) -> bool:
    """Whether some thread reads what another one wrote, in the first iteration."""
    launch = place.launch
    assert launch is not None
    count = thread_count(launch)
    variables = launch.attrs.get("thread_vars", ())
    if count is None or not variables:
        return False
    fixed = {p.var: 0 for p in place.parents if isinstance(p, For)} | {place.stmt.var: 0} | dict.fromkeys(launch.block_vars, 0)  # type: ignore[attr-defined]
    taken = thread_set(place) or [True] * count
    try:
        owner = {tuple(evaluate(i, {**fixed, variables[0]: t}) for i in written): t for t in range(count) if taken[t]}
        return any(owner.get(tuple(evaluate(i, {**fixed, variables[0]: t}) for i in read), t) != t for t in range(count) if taken[t])
    except (KeyError, ValueError):
        return False
