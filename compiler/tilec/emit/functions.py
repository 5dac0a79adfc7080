"""Scalar functions: how TIRx and CUDA compute each."""
from __future__ import annotations

from typing import Any

from .. import tvm_compat as T
from ..ir import dtypes
from ..ir.expr import Call
from ..transform.errors import LoweringError

# Names with a function of the same name in TIRx.
_SAME = ("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan",
         "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "nearbyint", "abs", "pow", "atan2", "hypot", "copysign",
         "isnan", "sigmoid", "erf")
_FAST = {"__exp": "exp", "__exp10": "exp10", "__log": "log", "__log2": "log2", "__log10": "log10", "__sin": "sin", "__cos": "cos", "__tan": "tan"}
_IEEE = {"ieee_add": "add", "ieee_sub": "sub", "ieee_mul": "mul", "ieee_fdiv": "div"}
_NARROW = ("float16", "bfloat16")  # computed in float32 and rounded


def _narrow(e: Call, args: list[Any], name: str) -> Any:
    if e.dtype in _NARROW and name not in ("abs",):
        wide = T.math(name, [T.cast("float32", a) for a in args])
        return T.cast(e.dtype, wide)
    return T.math(name, args)


def _predicate(e: Call, args: list[Any]) -> Any:
    x = args[0]
    source = e.args[0].dtype
    if source in _NARROW:
        x, source = T.cast("float32", x), "float32"
    if not dtypes.is_float(source):
        return T.constant(e.op == "isfinite", "bool")
    nan = T.math("isnan", (x,))  # TVM simplifies x == x to true
    if e.op == "isnan":
        return nan
    finite = T.binary("lt", T.math("abs", (x,)), T.constant(float("inf"), source))
    if e.op == "isfinite":
        return finite
    return T.binary("and", T.logical_not(nan), T.logical_not(finite))


def _extremum_nan(e: Call, args: list[Any]) -> Any:
    """The larger or smaller of two values; NaN where one of them is."""
    a, b = args
    missing = T.binary("or", T.math("isnan", (a,)), T.math("isnan", (b,)))
    return T.if_then_else(missing, T.binary("add", a, b), T.binary("max" if e.op == "max_nan" else "min", a, b))


def _fmod(e: Call, args: list[Any]) -> Any:
    """TVM's fmod does not compile for floats with LLVM; the C library's does."""
    if e.dtype == "float64":
        return T.extern("fmod", "float64", args)
    value = T.extern("fmodf", "float32", [T.cast("float32", a) for a in args])
    return value if e.dtype == "float32" else T.cast(e.dtype, value)


def _round(e: Call, args: list[Any]) -> Any:
    """Halves away from zero, as C's function; TVM's takes the even neighbour."""
    if e.dtype == "float64":
        return T.extern("round", "float64", args)
    value = T.extern("roundf", "float32", [T.cast("float32", a) for a in args])
    return value if e.dtype == "float32" else T.cast(e.dtype, value)


def _make(name: str) -> Any:
    return lambda e, args: _narrow(e, args, name)


def _exp10(e: Call, args: list[Any]) -> Any:
    x = args[0] if e.dtype not in _NARROW else T.cast("float32", args[0])
    kind = "float32" if e.dtype in _NARROW else e.dtype
    value = T.math("exp", (T.binary("mul", x, T.constant(2.302585092994046, kind)),))
    return value if kind == e.dtype else T.cast(e.dtype, value)


def _to_nearest(make: Any) -> Any:
    """Rounded operations: a CPU rounds to nearest; the other modes exist on a GPU only."""
    def checked(e: Call, args: list[Any]) -> Any:
        mode = (e.attrs or {}).get("mode", "rn")
        if mode != "rn":
            raise LoweringError(f"T.{e.op} with rounding mode {mode!r} runs on a GPU only", e.span)
        return make(e, args)

    return checked


def _fma(e: Call, args: list[Any]) -> Any:
    if not dtypes.is_float(e.dtype):
        return T.binary("add", T.binary("mul", args[0], args[1]), args[2])
    if e.dtype == "float64":
        return T.extern("fma", "float64", args)
    value = T.extern("fmaf", "float32", [T.cast("float32", a) for a in args])
    return value if e.dtype == "float32" else T.cast(e.dtype, value)


_ROUNDED: dict[str, Any] = {
    **{name: (lambda e, args, op=op: T.binary(op, args[0], args[1])) for name, op in _IEEE.items()},
    "ieee_frcp": lambda e, args: T.binary("div", T.constant(1.0, e.dtype), args[0]), "ieee_fsqrt": _make("sqrt"), "ieee_frsqrt": _make("rsqrt"),
    "ieee_fmaf": _fma,
}

TIR_FUNCTIONS: dict[str, Any] = {
    **{name: _make(name) for name in _SAME},
    **{name: _make(target) for name, target in _FAST.items()},
    **{name: _to_nearest(make) for name, make in _ROUNDED.items()}, "fma": _fma,
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _predicate),
    "fmod": _fmod, "round": _round, "max_nan": _extremum_nan, "min_nan": _extremum_nan, "exp10": _exp10, "__exp10": _exp10,
    "reinterpret": lambda e, args: T.math("reinterpret", (e.dtype, args[0])),
}
