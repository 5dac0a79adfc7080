"""Types of scalar values: conditions, operators, scalar functions."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import GLOBAL, SHARED, SHARED_DYN
from ...ir.expr import Binary, Call, Expr, Load, Unary, Var, is_host_choice, is_truth, walk
from ...ir.stmt import If
from ...source.span import Span
from ..context import RuleContext
from ..facts import BITWISE
from ..registry import rule


@rule("operand-dtype")
def operand_dtype(ctx: RuleContext):
    for place, e in ctx.facts.bitwise:
        if isinstance(e, Binary) and (dtypes.is_float(e.a.dtype) or dtypes.is_float(e.b.dtype)):
            dtype = e.a.dtype if dtypes.is_float(e.a.dtype) else e.b.dtype
            yield ctx.report(f"{BITWISE[e.op]} works on integers; an operand is {dtype}", e.span or place.stmt.span)
        elif isinstance(e, Unary) and dtypes.is_float(e.a.dtype):
            yield ctx.report(f"~ works on integers; the operand is {e.a.dtype}", e.span or place.stmt.span)


STOCHASTIC = ("sm_100a", "sm_103a")  # chips with cvt.rs
INTEGER_FUNCTIONS = ("popcount", "clz", "__ffs", "__brev")


@rule("operand-dtype")
def integer_functions(ctx: RuleContext):
    for place, call in ctx.facts.calls:
        if call.op not in INTEGER_FUNCTIONS or not call.args or not isinstance(call.args[0], Expr):
            continue
        dtype = call.args[0].dtype
        span = call.span or place.stmt.span
        if dtypes.is_float(dtype):
            yield ctx.report(f"T.{call.op} works on integers; its argument is {dtype}", span)
        elif call.op == "clz" and dtypes.is_int(dtype) and dtypes.bits(dtype) < 32:
            yield ctx.report(f"T.clz works on 32 and 64 bits; its argument is {dtype}", span)


@rule("cast-target", per_target=True)
def stochastic_casts(ctx: RuleContext):
    """cvt.rs: sm_100a and sm_103a alone (PTX ISA, cvt)."""
    target = ctx.target
    if target is None or target.kind != "cuda" or target.name in STOCHASTIC:
        return
    for place, call in ctx.facts.calls:
        if call.op == "cast_rs":
            yield ctx.report(f"round='rs' needs {' or '.join(STOCHASTIC)}; {target.name} rounds to nearest even only", call.span or place.stmt.span)


@rule("condition-dtype")
def branch_condition(ctx: RuleContext):
    """A branch on a number is refused once TileLang joins the condition with a guard or negates it (src/transform, 0.1.15)."""
    for place in ctx.facts.places:
        s = place.stmt
        if not isinstance(s, If):
            continue
        dtype = s.cond.dtype
        if not (dtypes.is_int(dtype) or dtypes.is_float(dtype)) or is_truth(s.cond) or is_host_choice(s.cond):
            continue
        if not (s.other or _is_guarded(s.cond)):
            continue
        yield ctx.report(
            f"the condition is a number ({dtype}), not a truth value; compare it, such as != 0",
            s.cond.span or _first_line(s.span),
        )


def _is_guarded(cond: Expr) -> bool:
    """Whether it depends on an index or reads memory that guards stand before."""
    return any(
        (isinstance(x, Var) and x.kind in ("block", "thread", "loop"))
        or (isinstance(x, Load) and x.buffer.scope in (GLOBAL, SHARED, SHARED_DYN))
        for x in walk(cond)
    ) and not any(isinstance(x, Call) for x in walk(cond))


def _first_line(span: Span | None) -> Span | None:
    return None if span is None else Span(span.path, span.line, span.column, span.line, span.column + 2, span.caller)
