"""Random numbers. TileLang 0.1.15, cuda/language/random.py: the generator's state is a variable that T.rng_init
declares."""

from __future__ import annotations

from ...ir.stmt import If
from ..context import RuleContext
from ..facts import Place
from ..registry import rule

_DRAWS = ("rng_rand", "rng_rand_float")


@rule("rng-init")
def rng_init(ctx: RuleContext):
    starts = ctx.facts.ops("rng_init")
    for place, e in ctx.facts.calls:
        if e.op not in _DRAWS:
            continue
        before = [s for s in starts if s.order < place.order]
        if not before:
            where = ("T.rng_init comes too late", starts[0].stmt.span if starts else None)
            yield ctx.report(f"T.{e.op} draws before T.rng_init has set up the generator", e.span or place.stmt.span, where)
        elif not any(_in_scope(s, place) for s in before):
            yield ctx.report(
                f"T.{e.op} draws from a generator that was set up inside a branch or loop which has ended; "
                "T.rng_init belongs before it",
                e.span or place.stmt.span,
                ("T.rng_init", before[0].stmt.span),
            )


def _in_scope(start: Place, use: Place) -> bool:
    """Whether the block the generator was declared in still stands at the draw."""
    if use.parents[: len(start.parents)] != start.parents:
        return False
    last = start.parents[-1] if start.parents else None
    if not isinstance(last, If):
        return True
    return (start.stmt in last.then) == _in_then(last, use)


def _in_then(branch: If, use: Place) -> bool:
    inner = (*use.parents, use.stmt)
    child = inner[inner.index(branch) + 1]
    return any(s is child for s in branch.then)
