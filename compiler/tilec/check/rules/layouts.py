"""Layouts of fragments: what layout inference of TileLang 0.1.15 refuses, told with the statements and tiles involved.

The verdict is ``analysis/layout_inference.py``'s; here it gets words. TileLang: transform/layout_inference, op/parallel.cc.
"""

from __future__ import annotations

import math

from ...analysis.fragment_model import FragmentModel, Outcome, models
from ...analysis.layout import REGISTER, FragmentLayout
from ...analysis.layout_inference import Clash, State
from ...analysis.matrix_layouts import Product
from ...analysis.placement import thread_runs
from ...analysis.tile_loops import LoopOp, Operator, ProductOp, ReduceOp
from ...ir.buffer import Buffer, Region
from ...ir.build import const_int
from ...ir.expr import Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import TileOp
from ...source.span import Span
from ..context import RuleContext
from ..facts import argument_span
from ..registry import rule
from .gemm import known

POLICY = {"square": "Square", "full_row": "FullRow", "full_col": "FullCol"}


def fragment_models(ctx: RuleContext) -> list[FragmentModel]:
    """Made once a program, for all targets."""
    return ctx.facts.remembered("fragment models", lambda: models(ctx.program))


def outcomes(ctx: RuleContext) -> list[tuple[FragmentModel, Outcome]]:
    if ctx.target is None or ctx.program.attrs.get("origin") == "autotune":
        return []  # a tuner tries configurations, and leaves out those without layouts
    target = ctx.target
    return ctx.facts.remembered(("fragment outcomes", target.name), lambda: [(m, o) for m in fragment_models(ctx) if (o := m.infer(target)) is not None])


@rule(
    "layout-conflict",
    "layout-undefined",
    "layout-bijective",
    "fragment-serial-index",
    "fragment-constant-index",
    "parallel-race",
    per_target=True,
)
def fragment_layouts(ctx: RuleContext):
    for model, outcome in outcomes(ctx):
        for clash in outcome.clashes:
            if ctx.is_blamed(clash.buffer):
                continue
            yield _TELLERS[clash.kind](ctx, model, outcome, clash)
        for buffer in outcome.undefined:
            if not ctx.is_blamed(buffer):
                yield _undefined(ctx, buffer)


# -- two layouts -----------------------------------------------------------------------------------------------------
def _product(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    op, state = clash.operator.stmt, clash.state
    assert isinstance(op, TileOp) and state is not None
    name = clash.buffer.name
    roles = _roles(op, clash.buffer)
    first = state.origin.get(clash.buffer)
    this = f"this T.{op.op} ({_tiles(outcome, op)})"
    if first is None:
        cause, related = _fixed(ctx, model, clash.buffer)
        message = f"{name} needs two layouts: {cause}; {this} needs another for {_as(roles)}"
    else:
        other = first.stmt
        cause = f"{_as(_roles(other, clash.buffer))} of the T.{_name(other)} in line {_line(other.span)} ({_tiles(outcome, other)})"
        message = f"{name} needs two layouts: {cause}, and {_as(roles)} of {this}"
        related = (f"the other use of {name}", _operand_span(other, clash.buffer))
    if "A" in roles or "B" in roles:
        message += f"; copy it into a fragment of its own first (T.copy({name}, ...))"
    return ctx.report(message + _advice(ctx, model, clash), _where(op, roles, first), related, (name, clash.buffer.span), name="layout-conflict")


def _fixed(ctx: RuleContext, model: FragmentModel, buffer: Buffer) -> tuple[str, tuple[str, Span | None]]:
    """Why a fragment has a layout before any operator gives it one."""
    places = model.launch.attrs.get("layout_places", {})
    if buffer in places:
        return "T.annotate_layout gives it one", ("the annotation", places[buffer])
    statement = model.collector.floating.get(buffer) if model.collector is not None else None
    where = statement.span if statement is not None else None
    line = f" in line {where.line}" if where is not None else ""
    return f"its elements are used outside of T.Parallel{line}, which takes a copy of all of it in every thread", ("used here", where)


def _roles(op: object, buffer: Buffer) -> list[str]:
    if not isinstance(op, TileOp):
        return []
    return [n for n in "ABC" if isinstance(r := op.args.get(n), Region) and r.buffer is buffer]


def _as(roles: list[str]) -> str:
    return "the accumulator" if roles == ["C"] else f"operand {' and '.join(roles)}" if roles else "it"


def _name(op: object) -> str:
    return op.op if isinstance(op, TileOp) else "Parallel"


def _line(span: Span | None) -> int | str:
    return span.line if span is not None else "?"


def _operand_span(op: object, buffer: Buffer) -> Span | None:
    roles = _roles(op, buffer)
    return argument_span(op, roles[0]) if roles and isinstance(op, TileOp) else getattr(op, "span", None)


def _where(op: TileOp, roles: list[str], first: Operator | None) -> Span | None:
    """The operand; for two accumulators the policy, where it is what differs."""
    if roles == ["C"] and isinstance(first, ProductOp) and first.stmt.args.get("policy") != op.args.get("policy") and "policy" in op.arg_spans:
        return _keyword_span(op, "policy")
    return argument_span(op, roles[0]) if roles else op.span


def _keyword_span(op: TileOp, name: str) -> Span | None:
    return op.arg_spans.get(name)


def _tiles(outcome: Outcome, op: object) -> str:
    """``4 warps as 2 x 2, 64 x 32 each``."""
    p = outcome.products.get(id(op))
    if p is None:
        return "?"
    warps = p.m * p.n
    policy = POLICY.get(str(op.args.get("policy")), "") if isinstance(op, TileOp) else ""
    return f"{p.instruction}, {warps} warp{'s' if warps > 1 else ''} as {p.m} x {p.n} of {p.M // p.m} x {p.N // p.n}, {policy}"


# -- a loop between two fragments -----------------------------------------------------------------------------------------
def _loop(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    state, op = clash.state, clash.operator
    assert state is not None and isinstance(op, LoopOp)
    what = f"T.{op.stmt.op}" if isinstance(op.stmt, TileOp) else "loop"
    sources = [state.root(b)[1] for b in (clash.buffer, clash.other) if b is not None]
    if any(isinstance(o, ProductOp) and _is_mixed(o.stmt) for o in sources):
        return None  # gemm-dtype tells the cause
    mine, theirs = _origin(ctx, model, outcome, state, clash.buffer), _origin(ctx, model, outcome, state, clash.other)
    if clash.other is None:
        message = f"{clash.buffer.name} is spread over the threads by {mine[0]}, which this {what} cannot follow"
        related = [mine[1]]
    else:
        message = (
            f"this {what} needs {clash.buffer.name} and {clash.other.name} split alike, but {clash.other.name} is split by {theirs[0]} "
            f"and {clash.buffer.name} by {mine[0]}"
        )
        related = [theirs[1], mine[1]]
    message += "; pass one of them through shared memory" + _advice(ctx, model, clash)
    return ctx.report(message, op.stmt.span, *related, name="layout-conflict")


def _is_mixed(op: TileOp) -> bool:
    """Whether a product's operands have two types, which no instruction multiplies."""
    a, b = (r.dtype if isinstance(r := op.args.get(n), Region) else "" for n in "AB")
    return known(a, b) and a != b and {a, b} != {"int8", "uint8"}


def _origin(ctx: RuleContext, model: FragmentModel, outcome: Outcome, state: State, buffer: Buffer | None) -> tuple[str, tuple[str, Span | None]]:
    """What decided about a fragment's layout, in words and as a place."""
    root, operator = state.root(buffer)
    if root is None or buffer is None:
        return "its loop", ("", None)
    via = f" (through {root.name})" if root is not buffer else ""
    if operator is None:
        words, related = _fixed(ctx, model, root)
        return words + via, related
    stmt = operator.stmt
    where = f"line {_line(stmt.span)}"
    if isinstance(operator, ProductOp):
        return f"the T.{operator.stmt.op} in {where} ({_tiles(outcome, stmt)}){via}", (f"splits {root.name}", stmt.span)
    if isinstance(operator, ReduceOp):
        return f"the reduction in {where}{via}", (f"splits {root.name}", stmt.span)
    return f"the {'copy' if isinstance(stmt, TileOp) else 'loop'} in {where}{via}", (f"splits {root.name}", stmt.span)


def _reduce(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    op, state = clash.operator, clash.state
    assert isinstance(op, ReduceOp) and state is not None
    mine, theirs = _origin(ctx, model, outcome, state, op.dst), _origin(ctx, model, outcome, state, op.src)
    message = (
        f"the threads that reduce {op.src.name} (split by {theirs[0]}) are not those that hold {op.dst.name}, which has its split from {mine[0]}; "
        f"reduce into another fragment and pass it through shared memory"
    )
    return ctx.report(message, op.stmt.span, mine[1], theirs[1], name="layout-conflict")


def _advice(ctx: RuleContext, model: FragmentModel, clash: Clash) -> str:
    """A policy for all products, or a number of threads, with which inference goes through."""
    assert ctx.target is not None
    for policy in ("full_row", "full_col"):
        tried = model.infer(ctx.target, policy=policy)
        if _works(model, tried):
            return f". With policy=T.GemmWarpPolicy.{POLICY[policy]} on every product the layouts agree"
    for threads in (64, 128, 256, 32):
        for other in (None, "full_row"):
            if threads != model.threads and _works(model, model.infer(ctx.target, policy=other, threads=threads)):
                more = " and policy=T.GemmWarpPolicy.FullRow" if other else ""
                return f". With threads={threads}{more} the layouts agree"
    return ""


def _works(model: FragmentModel, outcome: Outcome | None) -> bool:
    if outcome is None or outcome.clashes or outcome.undefined or model.collector is None:
        return False
    return all(id(op.stmt) in outcome.products for op in model.collector.operators if isinstance(op, ProductOp))


# -- one fragment and a loop -------------------------------------------------------------------------------------------
def _serial(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    access, variable = clash.access, clash.variable
    assert access is not None and variable is not None
    loop = clash.operator.stmt
    message = (
        f"{access.buffer.name} is spread over the block's threads, so the serial loop over {variable.name} cannot walk it; use T.reduce_*, "
        f"make {variable.name} a variable of T.Parallel, or keep {access.buffer.name} in shared memory"
    )
    related = [("the loop", variable.span), (access.buffer.name, access.buffer.span)]
    return ctx.report(message, access.span or loop.span, *related, name="fragment-serial-index")


def _constant(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    access = clash.access
    assert access is not None
    shown = ", ".join(str(const_int(i)) if const_int(i) is not None else "..." for i in access.indices)
    return ctx.report(
        f"{access.buffer.name}[{shown}]: in a loop over the threads a fragment is indexed by the loop's variables or by 0, not by other "
        "constants",
        access.span or clash.operator.stmt.span,
        (access.buffer.name, access.buffer.span),
        name="fragment-constant-index",
    )


def _spread(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    access = clash.access
    span = access.span if access is not None else None
    fixed = access is not None and any(const_int(i) is not None for i in access.indices)
    message = (
        f"the elements of {clash.buffer.name} that this loop runs over belong to threads that are not consecutive, which TileLang cannot "
        "lower; run over the whole fragment, or pass it through shared memory"
    )
    return ctx.report(
        message,
        span or clash.operator.stmt.span,
        (clash.buffer.name, clash.buffer.span),
        name="fragment-constant-index" if fixed else "layout-bijective",
    )


def _ragged(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    op, threads = clash.operator, outcome.threads
    assert isinstance(op, LoopOp)
    total = 1
    for e in op.space.extents:
        total *= e
    return ctx.report(
        f"{total} elements of the fragment {clash.buffer.name} cannot be shared out over {threads} threads: each takes as many, so the number "
        f"is a multiple of {threads}, or at most {threads}",
        op.stmt.span,
        (clash.buffer.name, clash.buffer.span),
        name="layout-undefined",
    )


def _tangled(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    op = clash.operator
    assert isinstance(op, ReduceOp)
    shape = " x ".join(str(const_int(e)) for e in op.src.shape)
    return ctx.report(
        f"no thread layout of {op.src.name} ({shape}) over {outcome.threads} threads can be reduced along dimension {op.dim}: its rows do not "
        "start at the same thread; use extents that are powers of two, or pad them",
        op.stmt.span,
        (op.src.name, op.src.span),
        name="layout-undefined",
    )


def _undefined(ctx: RuleContext, buffer: Buffer):
    return ctx.report(
        f"nothing tells which thread holds which element of the fragment {buffer.name}: it is only filled, cleared, reduced or the value of an "
        "atomic; use it in a copy, a T.gemm or a T.Parallel loop, or remove it",
        buffer.span,
        name="layout-undefined",
        buffer=buffer,
    )


@rule("reduce-thread-layout", "reduce-batch", per_target=True)
def reduction_width(ctx: RuleContext):
    """Threads exchange partial results with a butterfly: their number, and the distance between them, is a power of two."""
    for model, outcome in outcomes(ctx):
        for op in outcome.operators:
            if not isinstance(op, ReduceOp) or not op.known or op.src not in outcome.final or ctx.is_blamed(op.src, op.dst):
                continue
            runs = list(thread_runs(outcome.final[op.src], op.dim))
            bad = next((d for d in runs if any(n & (n - 1) for n in d)), None)
            if bad is None and runs and op.dst in outcome.final:
                yield _batch(ctx, op, outcome.final[op.dst])
            if bad is not None:
                apart = f", {bad[1]} apart" if bad[1] > 1 else ""
                yield ctx.report(
                    f"the reduction of {op.src.name} along dimension {op.dim} runs over {bad[0]} threads{apart}; the exchange between threads "
                    "needs powers of two",
                    op.stmt.span,
                    ("the launch", model.launch.attrs.get("spans", {}).get("threads") or model.launch.span),
                    name="reduce-thread-layout",
                )


def _batch(ctx: RuleContext, op: ReduceOp, layout: FragmentLayout):
    """Threads exchange ``batch`` partial results at a time: whole batches of those that each of them holds."""
    assert isinstance(op.stmt, TileOp)
    batch = const_int(op.stmt.args.get("batch"))
    results = math.prod(d.extent for d in layout.digits if d.axis == REGISTER)
    if batch is None or batch <= 1 or results % batch == 0:
        return None
    return ctx.report(
        f"batch is {batch}, but each thread holds {results} of the results of this reduction; batch divides that number",
        argument_span(op.stmt, "batch"),
        (op.dst.name, op.dst.span),
        name="reduce-batch",
    )


def _race(ctx: RuleContext, model: FragmentModel, outcome: Outcome, clash: Clash):
    access, op = clash.access, clash.operator
    assert access is not None and isinstance(op, LoopOp) and clash.other is not None and clash.state is not None
    used = {x for i in access.indices for x in walk_expr(i) if isinstance(x, Var)}
    missing = [v.name for v in op.variables if v not in used]
    over = f"over {' and '.join(missing)} " if missing else ""
    cause, related = _origin(ctx, model, outcome, clash.state, clash.other)
    return ctx.report(
        f"iterations {over}of different threads write the same element of {access.buffer.name} ({clash.other.name} is split by {cause}); "
        "use T.reduce_* for a reduction",
        access.span or op.stmt.span,
        related,
        (access.buffer.name, access.buffer.span),
        name="parallel-race",
    )


_TELLERS = {
    "race": _race,
    "product": _product,
    "loop": _loop,
    "reduce": _reduce,
    "serial": _serial,
    "constant": _constant,
    "spread": _spread,
    "ragged": _ragged,
    "tangled": _tangled,
}

__all__ = ["Product", "fragment_models", "outcomes"]
