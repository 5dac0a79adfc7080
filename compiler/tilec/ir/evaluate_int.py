"""The value of an integer expression once its variables are known."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .build import _fold_numbers, const_value
from .expr import Binary, Cast, Expr, Select, Unary, Var


def evaluate(e: Expr | int, values: Mapping[Var, Any]) -> Any:
    """Raises KeyError for a variable without a value, ValueError for what is no arithmetic."""
    known = const_value(e)
    if known is not None:
        return known
    if isinstance(e, Var):
        return values[e]
    if isinstance(e, Cast):
        return evaluate(e.a, values)
    if isinstance(e, Select):
        return evaluate(e.then if evaluate(e.cond, values) else e.other, values)
    if isinstance(e, Unary):
        value = evaluate(e.a, values)
        return {"neg": lambda: -value, "not": lambda: not value, "bitnot": lambda: ~value}[e.op]()
    if isinstance(e, Binary):
        result = _fold_numbers(e.op, evaluate(e.a, values), evaluate(e.b, values))
        if result is not None:
            return result
    raise ValueError("not an arithmetic expression of known variables")
