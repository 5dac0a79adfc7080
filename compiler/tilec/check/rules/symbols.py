"""Run-time extents. TileLang 0.1.15 finds one without a value in its last step (MakePackedAPI) and names neither place nor use."""

from __future__ import annotations

from ...ir.buffer import Buffer, Region
from ...ir.expr import Expr, Var, has_unknown, walk
from ...ir.stmt import For, Launch, Let, Parallel, TileOp
from ...source.span import Span
from ..context import RuleContext
from ..facts import Place, argument_span
from ..registry import rule


@rule("unbound-symbol")
def unbound_symbol(ctx: RuleContext):
    if not ctx.facts.symbols or ctx.program.attrs.get("incomplete") or ctx.program.attrs.get("unknown_params"):
        return
    if not ctx.program.launches():
        return  # a fragment of a program, for the passes of a compiler
    bound = _bound(ctx)
    if bound is None:
        return
    for symbol, (place, parent) in ctx.facts.symbols.items():
        if symbol in bound:
            continue
        span = _use(symbol, place, parent)
        twin = next((b for b in bound if b.name == symbol.name), None)
        other = f" (another symbol of that name is: {symbol.name} was made twice)" if twin is not None else ""
        yield ctx.report(
            f"{symbol.name} is not bound by a parameter: it is the extent of no tensor the kernel takes{other}",
            span,
            ("reached by this call", span.caller if span is not None else None),
            ("made here", symbol.span),
            ("the symbol of the same name that is bound", twin.span if twin is not None else None),
        )


def _bound(ctx: RuleContext) -> set[Var] | None:
    """The symbols in shapes and strides of parameters; None if one of those is not known."""
    found: set[Var] = {p for p in ctx.program.params if isinstance(p, Var)}
    found |= {p.stmt.var for p in ctx.facts.places if isinstance(p.stmt, Let)}
    for p in ctx.program.params:
        for e in (*p.shape, *(p.strides or ())) if isinstance(p, Buffer) else ():
            if has_unknown(e):
                return None
            found |= {x for x in walk(e) if isinstance(x, Var)}
    return found


def _use(symbol: Var, place: Place, parent: Expr | None) -> Span | None:
    """The smallest written thing around the use."""
    s = place.stmt
    if parent is not None and parent.span is not None:
        return parent.span
    if isinstance(s, Launch):
        spans = s.attrs.get("grid_spans", ())
        return next((w for e, w in zip(s.grid, spans) if _mentions(e, symbol)), s.span)
    if isinstance(s, TileOp):
        for name, value in s.args.items():
            found = (*value.mins, *value.extents) if isinstance(value, Region) else (value,)
            if any(_mentions(e, symbol) for e in found):
                return argument_span(s, name)
    if isinstance(s, (For, Parallel)):
        return s.span
    return s.span


def _mentions(e: object, symbol: Var) -> bool:
    return isinstance(e, Expr) and any(x is symbol for x in walk(e))
