"""Parallel loops and fragments. TileLang 0.1.15, src/op/parallel.cc, src/transform/verify_parallel_loop.cc."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, LOCAL, TMEM, Region
from ...ir.build import const_int
from ...ir.evaluate_int import evaluate
from ...ir.expr import Expr, Var, equal
from ...ir.expr import walk as walk_expr
from ...ir.stmt import For, Launch, Parallel, TileOp
from ..context import RuleContext
from ..facts import OPAQUE, Access, Place, is_runtime
from ..registry import rule

TILE_OPS = (
    "atomic",
    "copy",
    "gemm",
    "wgmma_gemm",
    "tcgen05_gemm",
    "reduce",
    "fill",
    "clear",
    "transpose",
    "cumsum",
    "cummax",
    "async_copy",
    "tma_copy",
)


@rule("parallel-nesting")
def parallel_nesting(ctx: RuleContext):
    for place in ctx.facts.places:
        s = place.stmt
        outer = [p for p in place.parents if isinstance(p, Parallel)]
        if not outer:
            continue
        if isinstance(s, Parallel) and not _directly(outer[-1], s):
            yield ctx.report(
                "a T.Parallel loop inside the body of another one; only directly nested ones (nothing between) are "
                "merged",
                s.span,
                ("the outer loop", outer[-1].span),
            )
        elif isinstance(s, For) and s.kind == "pipelined":
            yield ctx.report("a pipelined loop inside T.Parallel", s.span, ("the outer loop", outer[-1].span))


def _directly(outer: Parallel, inner: Parallel) -> bool:
    return len(outer.body) == 1 and outer.body[0] is inner


@rule("parallel-tile-op")
def parallel_tile_op(ctx: RuleContext):
    for place in ctx.facts.ops(*TILE_OPS):
        op = place.stmt
        assert isinstance(op, TileOp)
        loop = next((p for p in reversed(place.parents) if isinstance(p, Parallel)), None)
        if loop is None or all(r.form == "element" for r in op.args.values() if isinstance(r, Region)):
            continue
        yield ctx.report(
            f"T.{op.op}{'_' + str(op.args['kind']) + ' of tiles' if op.op == 'atomic' else ''} works with all threads of the block and cannot stand inside T.Parallel",
            op.span,
            ("the loop", loop.span),
        )


def parallel_vars(place: Place) -> dict[Var, Expr]:
    """The variables of the enclosing parallel loops with their extents."""
    return {v: e for p in place.parents if isinstance(p, Parallel) for v, e in zip(p.vars, p.extents)}


def uses_any(indices: tuple[Expr, ...], variables) -> list[Var]:
    return [x for i in indices for x in walk_expr(i) if isinstance(x, Var) and x in variables]


@rule("parallel-local-index")
def parallel_local_index(ctx: RuleContext):
    for buffer in ctx.facts.allocations(LOCAL):
        for access in ctx.facts.uses.get(buffer, ()):
            if access.indices is None or access.kind == OPAQUE:
                continue
            found = uses_any(access.indices, parallel_vars(access.place))
            if found:
                yield ctx.report(
                    f"{buffer.name} belongs to each thread alone (T.alloc_local), but {found[0].name} runs over the "
                    "threads; use T.alloc_fragment",
                    access.span,
                    (f"{buffer.name}", buffer.span),
                )
                break


def fragment_accesses(ctx: RuleContext) -> dict[tuple[int, int], list[Access]]:
    """Element accesses to fragments, by outermost parallel loop and fragment."""
    return ctx.facts.remembered("fragment accesses", lambda: _find_fragment_accesses(ctx))


def _find_fragment_accesses(ctx: RuleContext) -> dict[tuple[int, int], list[Access]]:
    found: dict[tuple[int, int], list[Access]] = {}
    for buffer in ctx.facts.allocations(FRAGMENT):
        for access in ctx.facts.uses.get(buffer, ()):
            loop = next((p for p in access.place.parents if isinstance(p, Parallel)), None)
            if loop is not None and access.indices is not None and access.kind != OPAQUE:
                found.setdefault((id(loop), id(buffer)), []).append(access)
    return found


@rule("parallel-symbolic-extent")
def parallel_symbolic_extent(ctx: RuleContext):
    for accesses in fragment_accesses(ctx).values():
        for access in accesses:
            extents = parallel_vars(access.place)
            bad = next((v for v in uses_any(access.indices or (), extents) if is_runtime(extents[v])), None)
            if bad is not None:
                yield ctx.report(
                    f"the range of {bad.name} is known at run time only, so it cannot index the fragment "
                    f"{access.buffer.name}",
                    access.span,
                    (f"{access.buffer.name}", access.buffer.span),
                )
                break


@rule("fragment-constant-index")
def fragment_constant_index(ctx: RuleContext):
    for accesses in fragment_accesses(ctx).values():
        for access in accesses:
            values = [const_int(i) for i in access.indices or ()]
            if (
                values
                and all(v is not None for v in values)
                and any(values)
                and all(v is None or v >= 0 for v in values)
            ):
                shown = ", ".join(str(v) for v in values)
                yield ctx.report(
                    f"{access.buffer.name}[{shown}]: inside T.Parallel a fragment is indexed by the loop's variables "
                    "or by 0, not by other "
                    "constants",
                    access.span,
                    (f"{access.buffer.name}", access.buffer.span),
                )
                break


@rule("fragment-two-indices")
def fragment_two_indices(ctx: RuleContext):
    """One loop has one layout: a fragment in it has one pattern of indices."""
    for accesses in fragment_accesses(ctx).values():
        first = accesses[0]
        for access in accesses[1:]:
            if _differ(first, access):
                yield ctx.report(
                    f"{access.buffer.name} is accessed with two index patterns in one parallel loop, but its "
                    "elements belong to different threads; "
                    "exchange them through shared memory",
                    access.span,
                    ("the other access", first.span),
                )
                break


def _differ(first: Access, second: Access) -> bool:
    """Whether the indices are surely not the same: they give different elements for some values of the loops' variables."""
    a, b = first.indices or (), second.indices or ()
    if len(a) != len(b) or all(equal(x, y) for x, y in zip(a, b)):
        return False
    ranges = _extents(first.place) | _extents(second.place)
    variables = {x for i in (*a, *b) for x in walk_expr(i) if isinstance(x, Var)}
    if not variables <= set(ranges):
        return False
    for sample in (1, 2, 3, 5, 8, 13, 31):
        values = {v: (sample * (n + 3) + n) % ranges[v] for n, v in enumerate(sorted(variables, key=lambda v: v.name))}
        try:
            if any(evaluate(x, values) != evaluate(y, values) for x, y in zip(a, b)):
                return True
        except (KeyError, ValueError, ZeroDivisionError):
            return False
    return False


def _extents(place: Place) -> dict[Var, int]:
    """How many values, from 0 on, the variables of the loops around a statement and of the grid take."""
    found: dict[Var, int] = {}
    for p in place.parents:
        pairs: list[tuple[Var, Expr]] = []
        if isinstance(p, Parallel):
            pairs = list(zip(p.vars, p.extents))
        elif isinstance(p, For) and const_int(p.start) == 0 and p.step == 1:
            pairs = [(p.var, p.extent)]
        elif isinstance(p, Launch):
            pairs = list(zip(p.block_vars, p.grid))
        for var, extent in pairs:
            count = const_int(extent)
            if count is not None and count > 0:
                found[var] = count
    return found


def _is_laid_out(ctx: RuleContext, loop: Parallel) -> bool:
    """Whether a register tile may give the loop its distribution, so that the width is not looked at: one of the loop, where products,
    tensor memory or the user lay out register tiles."""
    fragments = any(loop in a.place.parents for b in ctx.facts.allocations(FRAGMENT) for a in ctx.facts.storage_uses.get(b, ()))
    given = any(launch.attrs.get("layouts") for launch in ctx.program.launches())
    return fragments and (given or bool(ctx.facts.allocations(TMEM)) or any("gemm" in name for name in ctx.facts.by_op))


@rule("coalesced-width")
def coalesced_width(ctx: RuleContext):
    """0.1.15 takes an IntImm for T.Parallel(coalesced_width=), but no Python integer (T.copy takes both)."""
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, Parallel) or s.attrs.get("coalesced_width") is None:
            continue
        value = s.attrs["coalesced_width"]
        span = s.attrs.get("spans", {}).get("coalesced_width") or s.span
        number = const_int(value)
        if number is not None and number < 1:
            yield ctx.report(f"coalesced_width is {number}; it must be positive", span)
        elif isinstance(value, int) and not isinstance(value, bool) and ctx.version in ("", "0.1.15") and not _is_laid_out(ctx, s):
            yield ctx.report(
                f"T.Parallel of TileLang 0.1.15 rejects a Python integer as coalesced_width; write T.int32({value})",
                span,
            )


@rule("annotation-value")
def unroll_options(ctx: RuleContext):
    for place in ctx.facts.places:
        s = place.stmt
        if (
            isinstance(s, For)
            and s.kind == "unroll"
            and s.attrs.get("explicit") is True
            and s.attrs.get("unroll_factor") is not None
        ):
            yield ctx.report("explicit=True and unroll_factor exclude each other", s.span)
