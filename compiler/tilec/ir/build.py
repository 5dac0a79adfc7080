"""Building expressions: lifting of Python numbers, type promotion and constant folding."""
from __future__ import annotations

import math
from typing import Any

from ..source.span import Span
from . import dtypes
from .expr import COMPARISONS, LOGICAL, Binary, Call, Cast, Const, Expr, Select, Unary, Unknown, Var
from .held import held, holds, largest, smallest


def const(value: int | float | bool, dtype: str | None = None, span: Span | None = None) -> Const:
    """A literal; without ``dtype`` bool, int32 (int64 where needed) or float32."""
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, int):
            dtype = "int32" if -(2**31) <= value < 2**31 else "int64"
        else:
            dtype = "float32"
    if dtypes.is_bool(dtype):
        value = bool(value)
    elif dtypes.is_int(dtype):
        value = int(value)
    elif dtypes.is_float(dtype):
        value = float(value)
    return Const(dtype, span, value)


def lift(value: Any, dtype: str | None = None) -> Expr:
    """An expression as it is; a Python number as a literal of ``dtype`` (or of its default type); of anything else nothing is known."""
    if isinstance(value, Expr):
        return value
    return const(value, dtype) if hasattr(value, "__float__") else Unknown("unknown", None, "what is no number")


def const_value(e: Any) -> int | float | bool | None:
    """The Python value of a literal or number, else None."""
    if isinstance(e, Const):
        return e.value
    if isinstance(e, (bool, int, float)):
        return e
    return None


def const_int(e: Any) -> int | None:
    """The value of an integer literal, else None."""
    value = e.value if isinstance(e, Const) else e
    if type(value) is int:
        return value
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def cast(e: Any, dtype: str, span: Span | None = None) -> Expr:
    e = lift(e)
    if e.dtype == dtype or dtype == "unknown":
        return e
    if isinstance(e, Unknown):
        return Unknown(dtype, span or e.span, e.reason)
    if isinstance(e, Const) and _foldable_cast(e, dtype):
        value = held(e.value, e.dtype)
        if value is not None and dtypes.is_int(dtype):
            value = held(value, dtype) if isinstance(value, int) or holds(value, dtype) else None
        if value is not None:
            return const(value, dtype, span or e.span)
    return Cast(dtype, span or e.span, e)


def _foldable_cast(e: Const, dtype: str) -> bool:
    """Literals are converted at compile time where the target type holds the value exactly enough."""
    if isinstance(e.value, float) and (math.isinf(e.value) or math.isnan(e.value)):
        return dtypes.scalar(dtype) in ("float16", "bfloat16", "float32", "float64")
    return dtypes.lanes(dtype) == 1 and (dtypes.is_float(dtype) or dtypes.is_int(dtype) or dtypes.is_bool(dtype))


def match(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands in their common type; Python numbers adopt the other's type where it can hold them."""
    a_python, b_python = not isinstance(a, Expr), not isinstance(b, Expr)
    if a_python and not b_python:
        return _adopt(a, b), b if not _widens(a, b) else cast(b, "float32")
    if b_python and not a_python:
        return a if not _widens(b, a) else cast(a, "float32"), _adopt(b, a)
    a, b = lift(a), lift(b)
    if a.dtype == b.dtype or isinstance(a, Unknown) or isinstance(b, Unknown):
        return a, b
    common = dtypes.promote(a.dtype, b.dtype)
    return cast(a, common), cast(b, common)


def _widens(number: Any, e: Expr) -> bool:
    """A float literal beside an integer expression makes the operation a float one."""
    return isinstance(number, float) and not dtypes.is_float(e.dtype)


def _adopt(number: Any, e: Expr) -> Expr:
    if not hasattr(number, "__float__"):
        return lift(number)
    if _widens(number, e):
        return const(number, "float32")
    if dtypes.is_bool(e.dtype) and not isinstance(number, bool):
        return const(number, "int32")
    return const(number, e.dtype)


def binary(op: str, a: Any, b: Any, span: Span | None = None) -> Expr:
    """``a op b`` with promotion and folding. True division of two integers yields float32."""
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return _unknown_result(op, a, b, span)
    if op in LOGICAL:
        a, b = as_bool(a), as_bool(b)
    elif op in ("shl", "shr"):
        a, b = lift(a), lift(b, a.dtype if isinstance(a, Expr) else None)
        b = cast(b, a.dtype)
    else:
        a, b = match(a, b)
        if a.dtype != b.dtype:
            common = dtypes.promote(a.dtype, b.dtype)
            a, b = cast(a, common), cast(b, common)
        if dtypes.is_bool(a.dtype) and op in ("add", "sub", "mul", "floordiv", "floormod"):
            a, b = cast(a, "int32"), cast(b, "int32")
    nameless = "unknown" in (a.dtype, b.dtype)  # an operand of a buffer whose type is not known
    if op == "div" and not dtypes.is_float(a.dtype) and not nameless:
        a, b = cast(a, "float32"), cast(b, "float32")
    dtype = "bool" if op in COMPARISONS or op in LOGICAL else "unknown" if nameless else a.dtype
    folded = _fold(op, a, b, dtype, span)
    return folded if folded is not None else Binary(dtype, span, op, a, b)


def _unknown_result(op: str, a: Any, b: Any, span: Span | None) -> Unknown:
    known = a if isinstance(a, Unknown) else b
    return Unknown("bool" if op in COMPARISONS or op in LOGICAL else "unknown", span, known.reason)


def as_bool(e: Any) -> Expr:
    e = lift(e)
    return e if dtypes.is_bool(e.dtype) or isinstance(e, Unknown) else binary("ne", e, const(0, e.dtype))


_PYTHON: dict[str, Any] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "min": smallest, "max": largest, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y, "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "and": lambda x, y: x and y, "or": lambda x, y: x or y,
    "bitand": lambda x, y: x & y, "bitor": lambda x, y: x | y, "bitxor": lambda x, y: x ^ y,
}


def _fold(op: str, a: Expr, b: Expr, dtype: str, span: Span | None) -> Expr | None:
    x, y = const_value(a), const_value(b)
    if x is not None and y is not None:
        return _fold_literals(op, a, b, dtype, span)
    if not dtypes.is_int(a.dtype):
        if op in LOGICAL and (x is not None or y is not None):
            known, other = (x, b) if x is not None else (y, a)
            return (other if known else const(False)) if op == "and" else (const(True) if known else other)
        return None
    if op == "add":
        return _fold_add(a, b, x, y)
    if op == "sub" and y is not None:
        return a if y == 0 else _fold_add(a, const(-int(y), b.dtype), None, -int(y))
    if op == "sub" and a is b:
        return const(0, dtype)
    if op == "mul":
        if x == 1:
            return b
        if y == 1:
            return a
        if x == 0 or y == 0:
            return const(0, dtype)
        if x is not None:
            return binary("mul", b, a, span)
        if y is not None and isinstance(a, Binary) and a.op == "mul" and const_int(a.b) is not None:
            return binary("mul", a.a, const(int(y) * int(a.b.value), dtype), span)  # type: ignore[attr-defined]
    if op == "floordiv" and y == 1:
        return a
    if op == "floormod" and y == 1:
        return const(0, dtype)
    return None


def _fold_literals(op: str, a: Expr, b: Expr, dtype: str, span: Span | None) -> Expr | None:
    """Two literals, as their types hold them; None where only the target knows the rounding."""
    x, y = held(const_value(a), a.dtype), held(const_value(b), b.dtype)  # type: ignore[arg-type]
    value = None if x is None or y is None else _fold_numbers(op, x, y)
    value = None if value is None or isinstance(value, complex) else held(value, dtype)
    return None if value is None else const(value, dtype, span)


def _fold_add(a: Expr, b: Expr, x: Any, y: Any) -> Expr | None:
    if x == 0:
        return b
    if y == 0:
        return a
    if x is not None:
        return binary("add", b, a)
    if y is not None and isinstance(a, Binary) and a.op == "add":
        inner = const_int(a.b)
        if inner is not None:
            return binary("add", a.a, const(inner + int(y), a.dtype))
    return None


def _fold_numbers(op: str, x: Any, y: Any) -> Any:
    try:
        if op in _PYTHON:
            return _PYTHON[op](x, y)
        if op == "div":
            return x / y
        if op == "floordiv":
            return x // y
        if op == "floormod":
            return x % y
        if op == "truncdiv":
            return int(x / y) if not isinstance(x, int) else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)
        if op == "truncmod":
            return math.fmod(x, y) if isinstance(x, float) else x - y * ((abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1))
        if op == "pow":
            return x**y
        if op == "shl":
            return x << y if 0 <= y < 64 else None
        if op == "shr":
            return x >> y if 0 <= y < 64 else None
    except (ArithmeticError, ValueError, TypeError):
        return None
    return None


def unary(op: str, a: Any, span: Span | None = None) -> Expr:
    a = as_bool(a) if op == "not" else lift(a)
    if isinstance(a, Unknown):
        return a
    value = const_value(a)
    if value is not None:
        if op == "neg":
            dtype = a.dtype if not dtypes.is_bool(a.dtype) else "int32"
            return const(held(-value, dtype) if dtypes.is_int(dtype) else -value, dtype, span)  # type: ignore[arg-type]
        if op == "not":
            return const(not value, "bool", span)
        if op == "bitnot" and isinstance(value, int):
            return const(held(~value, a.dtype), a.dtype, span)  # type: ignore[arg-type]
    return Unary(a.dtype, span, op, a)


def select(cond: Any, then: Any, other: Any, span: Span | None = None) -> Expr:
    cond = as_bool(cond)
    then, other = match(then, other)
    if isinstance(cond, Const):
        return then if cond.value else other
    if isinstance(cond, Unknown):
        return Unknown(then.dtype, span, cond.reason)
    if isinstance(then, Unknown) or isinstance(other, Unknown):
        return Unknown("unknown", span, (then if isinstance(then, Unknown) else other).reason)  # type: ignore[union-attr]
    return Select(then.dtype, span, cond, then, other)


def call(op: str, args: tuple[Any, ...], dtype: str, span: Span | None = None, **attrs: Any) -> Expr:
    return Call(dtype, span, op, args, attrs or None)


def ceildiv(a: Any, b: Any) -> Expr:
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return _unknown_result("floordiv", a, b, None)
    a, b = match(a, b)
    if dtypes.is_unsigned(b.dtype) or _is_positive(b):
        return binary("floordiv", a + (b - 1), b)
    return unary("neg", binary("floordiv", unary("neg", a), b))


def _is_positive(e: Expr) -> bool:
    """Surely above zero: a literal, or a size."""
    value = const_int(e)
    return value > 0 if value is not None else isinstance(e, Var) and e.kind in ("dynamic", "const", "size")
