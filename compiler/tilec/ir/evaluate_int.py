"""The value of an integer expression once its variables are known."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .build import _fold_numbers
from .expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var


def evaluate(e: Expr | int, values: Mapping[Any, Any]) -> Any:
    """``values``: of variables, and of the buffers with one element (T.alloc_var) that are loaded.

    Raises KeyError for a variable without a value, ValueError for what is no arithmetic."""
    how = _BY_CLASS.get(e.__class__)
    if how is None:
        raise ValueError("not an arithmetic expression of known variables")
    return how(e, values)


def _load(e: Load, values: Mapping[Any, Any]) -> Any:
    if e.buffer not in values:
        raise ValueError("an element that is not known")
    return values[e.buffer]


def _unary(e: Unary, values: Mapping[Any, Any]) -> Any:
    value = evaluate(e.a, values)
    if e.op == "not":
        return not value
    return -value if e.op == "neg" else ~value


def _binary(e: Binary, values: Mapping[Any, Any]) -> Any:
    result = _fold_numbers(e.op, evaluate(e.a, values), evaluate(e.b, values))
    if result is None:
        raise ValueError(f"{e.op} of numbers that have no such result")
    return result


_BY_CLASS: dict[type, Callable[[Any, Mapping[Any, Any]], Any]] = {
    **dict.fromkeys((bool, int, float), lambda e, values: e),
    Const: lambda e, values: e.value,
    Var: lambda e, values: values[e],
    Load: _load,
    Cast: lambda e, values: evaluate(e.a, values),
    Select: lambda e, values: evaluate(e.then if evaluate(e.cond, values) else e.other, values),
    Unary: _unary,
    Binary: _binary,
}
