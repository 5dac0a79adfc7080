"""Linear forms of integer expressions: enough algebra to compare and subtract index expressions exactly."""
from __future__ import annotations

from .build import binary, const, const_int
from .expr import Binary, Expr, Unknown, equal

Linear = tuple[list[tuple[Expr, int]], int]  # terms with their factors, and a constant


def linear(e: Expr) -> Linear:
    """The expression as a sum of factor * term + constant; terms are compared structurally and merged."""
    terms: list[tuple[Expr, int]] = []
    total = _collect(e, 1, terms)
    return [(t, f) for t, f in terms if f != 0], total


def _collect(e: Expr, factor: int, terms: list[tuple[Expr, int]]) -> int:
    value = const_int(e)
    if value is not None:
        return value * factor
    if isinstance(e, Binary):
        if e.op == "add":
            return _collect(e.a, factor, terms) + _collect(e.b, factor, terms)
        if e.op == "sub":
            return _collect(e.a, factor, terms) + _collect(e.b, -factor, terms)
        if e.op == "mul":
            for x, y in ((e.a, e.b), (e.b, e.a)):
                scale = const_int(y)
                if scale is not None:
                    return _collect(x, factor * scale, terms)
    for i, (term, old) in enumerate(terms):
        if equal(term, e):
            terms[i] = (term, old + factor)
            return 0
    terms.append((e, factor))
    return 0


def subtract(high: Expr, low: Expr) -> Expr:
    """``high - low`` with common terms cancelled."""
    if isinstance(high, Unknown) or isinstance(low, Unknown):
        return binary("sub", high, low)
    terms, total = linear(binary("sub", high, low) if const_int(low) != 0 else high)
    result: Expr | None = None
    for term, factor in terms:
        part = term if factor == 1 else binary("mul", term, const(factor, term.dtype))
        result = part if result is None else binary("add", result, part)
    if result is None:
        return const(total)
    return binary("add", result, const(total, result.dtype)) if total else result


def known_difference(a: Expr, b: Expr) -> int | None:
    """``a - b`` if it is the same for all values of the variables, else None."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return None
    return const_int(subtract(a, b))
