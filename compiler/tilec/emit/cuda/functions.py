"""Scalar functions in CUDA."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.expr import Call, Cast

# TileLang 0.1.15 compiles T.exp and the like to the precise functions; the names with two underscores are the fast ones.
_PLAIN = ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
          "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc", "round", "nearbyint", "pow", "fmod", "atan2", "hypot", "copysign")
_FAST = {"__exp": "__expf", "__exp10": "__exp10f", "__log": "__logf", "__log2": "__log2f", "__log10": "__log10f", "__sin": "__sinf", "__cos": "__cosf",
         "__tan": "__tanf"}


def _plain(name: str) -> Any:
    return lambda dtype, args: f"{name}{'' if dtype == 'float64' else 'f'}({', '.join(args)})"


def _named(name: str) -> Any:
    return lambda dtype, args: f"{name}({', '.join(args)})"


def _sigmoid(dtype: str, args: list[str]) -> str:
    one, exp = ("1.0", "exp") if dtype == "float64" else ("1.0f", "expf")
    return f"({one} / ({one} + {exp}(-({args[0]}))))"


FLOAT_FUNCTIONS: dict[str, Any] = {
    **{name: _plain(name) for name in _PLAIN}, "abs": _plain("fabs"), **{name: _named(cuda) for name, cuda in _FAST.items()}, "sigmoid": _sigmoid,
}


def _predicate(p: Any, e: Call) -> str:
    source = e.args[0]
    if not dtypes.is_float(source.dtype):
        return "true" if e.op == "isfinite" else "false"
    wide = source if source.dtype in ("float32", "float64") else Cast("float32", None, source)
    return f"{e.op}({p.text(wide)})"


PREDICATES: dict[str, Any] = dict.fromkeys(("isnan", "isinf", "isfinite"), _predicate)
