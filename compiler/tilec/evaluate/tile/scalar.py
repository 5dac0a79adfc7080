"""Scalar functions and casts."""
from __future__ import annotations

import ast
import itertools
import math
from typing import Any

from ...ir import build, dtypes
from ...ir.expr import Expr, Load, Unknown, Var
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import Api, DType, dtype_name, is_unknown, plain, unknown
from .cast_options import stochastic
from .operands import check_condition, check_operands, check_rounding
from .registry import Bound, api, report_dtype

# Functions of floats that keep the argument's type; integers are taken as float32 first.
FLOAT_FUNCTIONS = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos",
    "atan", "asinh", "acosh", "atanh", "erf", "sigmoid", "floor", "ceil", "trunc", "nearbyint",
    "__exp", "__exp10", "__log", "__log2", "__log10", "__sin", "__cos", "__tan", "ieee_fsqrt", "ieee_frcp", "ieee_frsqrt",
)
_FAST_TYPES = ("float16", "bfloat16", "float32", "float64")  # of T.__exp and its like
BINARY_FLOAT = ("pow", "fmod", "atan2", "hypot", "copysign", "power", "ieee_add", "ieee_sub", "ieee_mul", "ieee_fdiv")
PREDICATES = ("isnan", "isinf", "isfinite")
OPERATORS = {"max": "max", "min": "min", "floordiv": "floordiv", "floormod": "floormod", "truncdiv": "truncdiv", "truncmod": "truncmod",
             "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "shift_left": "shl", "shift_right": "shr",
             "And": "and", "Or": "or", "EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge", "div": "div", "add": "add",
             "indexdiv": "floordiv", "indexmod": "floormod"}


def number(value: Any) -> Any:
    """A scalar argument as an expression or Python number, else unknown."""
    value = plain(scalar_operand(value))
    return value if isinstance(value, (int, float, Expr)) else unknown("argument")


def _rounding(ev: Evaluator, b: Bound, name: str, dtype: str) -> dict[str, Any]:
    """The rounding mode of a T.ieee_* call, as an attribute of it."""
    rest, nodes = b["rest"] or [], b["rest_nodes"] or []
    mode = rest[0] if rest else b["rounding_mode"]
    where = ev.span(nodes[0]) if nodes and nodes[0] is not None else b.where("rounding_mode") if "rounding_mode" in b.nodes else b.span
    check_rounding(ev, name, mode, dtype, where)
    return {"mode": mode} if isinstance(mode, str) else {}


def _float_function(name: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        value = number(b["x"])
        if is_unknown(value):
            return Unknown("unknown", b.span, name)
        if not isinstance(value, Expr):
            value = build.const(float(value), "float32") if not name.startswith("ieee") or isinstance(value, float) else build.const(value)
        if name.startswith("ieee") and not dtypes.is_float(value.dtype):
            ev.problem("operand-dtype", f"T.{name} takes a float, but its argument is {value.dtype}", b.where("x"))
            return unknown(name)
        if name.startswith("__") and dtypes.scalar(value.dtype) not in _FAST_TYPES and value.dtype != dtypes.UNKNOWN:
            ev.problem("operand-dtype", f"T.{name} takes float16, bfloat16, float32 or float64, but its argument is {value.dtype}; cast it", b.where("x"))
            return unknown(name)
        attrs = _rounding(ev, b, name, value.dtype) if name.startswith("ieee") else {}
        if not dtypes.is_float(value.dtype):
            value = build.cast(value, "float32")
        return build.call(name, (value,), value.dtype, b.span, **attrs)

    return handler


for _name in FLOAT_FUNCTIONS:
    api(_name, "x *rest")(_float_function(_name))


# T.round is the even neighbour of a half unless it is told otherwise; the function "round" is C's, which goes away from zero.
TIES = {"ties-to-even": "nearbyint", "ties-away-from-zero": "round"}


@api("round", "x rounding_mode= span=")
def _round(ev: Evaluator, b: Bound) -> Any:
    value, mode = number(b["x"]), b["rounding_mode"]
    if is_unknown(value) or is_unknown(mode):
        return Unknown("unknown", b.span, "round")
    if isinstance(mode, str) and mode not in TIES:
        ev.problem("rounding-mode", f"T.round has no rounding mode {mode!r}; there are {', '.join(map(repr, TIES))}", b.where("rounding_mode"))
        return unknown("round")
    value = value if isinstance(value, Expr) else build.const(float(value), "float32")
    value = value if dtypes.is_float(value.dtype) else build.cast(value, "float32")
    return build.call(TIES[mode] if isinstance(mode, str) else "nearbyint", (value,), value.dtype, b.span)


def _binary_float(name: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        x, y = number(b["x"]), number(b["y"])
        if is_unknown(x) or is_unknown(y):
            return Unknown("unknown", b.span, name)
        if name.startswith("ieee") and any(isinstance(v, Expr) and not dtypes.is_float(v.dtype) for v in (x, y)):
            wrong = next(v for v in (x, y) if isinstance(v, Expr) and not dtypes.is_float(v.dtype))
            ev.problem("operand-dtype", f"T.{name} takes floats, but an argument is {wrong.dtype}", b.span)
            return unknown(name)
        x, y = build.match(x, y) if isinstance(x, Expr) or isinstance(y, Expr) else (build.const(float(x)), build.const(float(y)))
        attrs = _rounding(ev, b, name, x.dtype) if name.startswith("ieee") else {}
        if not dtypes.is_float(x.dtype):
            x, y = build.cast(x, "float32"), build.cast(y, "float32")
        return build.call("pow" if name == "power" else name, (x, y), x.dtype, b.span, **attrs)

    return handler


@api("ieee_fmaf", "x y z rounding_mode=")
def ieee_fmaf(ev: Evaluator, b: Bound) -> Any:
    values = [number(b[n]) for n in "xyz"]
    if any(is_unknown(v) for v in values):
        return Unknown("unknown", b.span, "ieee_fmaf")
    known = next((v for v in values if isinstance(v, Expr)), None)
    dtype = known.dtype if known is not None else "float32"
    if not dtypes.is_float(dtype):
        ev.problem("operand-dtype", f"T.ieee_fmaf takes floats, but an argument is {dtype}", b.span)
        return unknown("ieee_fmaf")
    mode = b["rounding_mode"]
    check_rounding(ev, "ieee_fmaf", mode, dtype, b.where("rounding_mode") if "rounding_mode" in b.nodes else b.span)
    return build.call("ieee_fmaf", tuple(build.cast(build.lift(v), dtype) for v in values), dtype, b.span, **({"mode": mode} if isinstance(mode, str) else {}))


for _name in BINARY_FLOAT:
    api(_name, "x y *rest")(_binary_float(_name))


def _predicate(name: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        value = number(b["x"])
        return Unknown("bool", b.span, name) if is_unknown(value) else build.call(name, (build.lift(value),), "bool", b.span)

    return handler


for _name in PREDICATES:
    api(_name, "x span=")(_predicate(_name))


def _operator(name: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        x, y = number(b["a"]), number(b["b"])
        if is_unknown(x) or is_unknown(y):
            return Unknown("unknown", b.span, name)
        if isinstance(x, float) and isinstance(y, int):
            y = float(y)
        if b.node is not None and not check_operands(ev, OPERATORS[name], x, y, b.node):
            return unknown(name)
        return plain(build.binary(OPERATORS[name], x, y, b.span))

    return handler


for _name in OPERATORS:
    api(_name, "a b span=")(_operator(_name))


@api("cdiv", "lhs rhs span=")
def cdiv(ev: Evaluator, b: Bound) -> Any:
    return ceildiv(ev, b)


@api("ceildiv", "lhs rhs span=")
def ceildiv(ev: Evaluator, b: Bound) -> Any:
    x, y = number(b["lhs"]), number(b["rhs"])
    if is_unknown(x) or is_unknown(y):
        return Unknown("unknown", b.span, "ceildiv")
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return -(-x // y) if y else unknown("division by zero")
    return plain(build.ceildiv(x, y))


@api("abs", "x span=")
def absolute(ev: Evaluator, b: Bound) -> Any:
    value = number(b["x"])
    if is_unknown(value):
        return value
    return abs(value) if not isinstance(value, Expr) else build.call("abs", (value,), value.dtype, b.span)


@api("fabs", "x span=")
def fabs(ev: Evaluator, b: Bound) -> Any:
    return absolute(ev, b)


def _unary(name: str, op: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        value = number(b["a"])
        return value if is_unknown(value) else plain(build.unary(op, value, b.span))

    api(name, "a span=")(handler)


_unary("bitwise_not", "bitnot")
_unary("Not", "not")


@api("if_then_else", "cond t f span=")
def if_then_else(ev: Evaluator, b: Bound) -> Any:
    cond, then, other = number(b["cond"]), number(b["t"]), number(b["f"])
    check_condition(ev, cond, b.where("cond"), "T.if_then_else")
    if is_unknown(then) or is_unknown(other):
        return Unknown("unknown", b.span, "if_then_else")
    if isinstance(then, (int, float)) and isinstance(other, (int, float)):
        if isinstance(then, float) != isinstance(other, float):
            then, other = float(then), float(other)
        then, other = build.lift(then), build.lift(other)
    return plain(build.select(cond if isinstance(cond, Expr) else bool(cond), then, other, b.span))


@api("Select", "condition true_value false_value span=")
def select(ev: Evaluator, b: Bound) -> Any:
    b.values.update(cond=b["condition"], t=b["true_value"], f=b["false_value"])
    return if_then_else(ev, b)


# -- types ----------------------------------------------------------------------------------------------------------------
@api("cast", "value dtype round= sat= rbits= span=")
def cast(ev: Evaluator, b: Bound) -> Any:
    made = _cast(ev, b, b["value"], "dtype")
    return made if is_unknown(made) else stochastic(ev, b, made)


@api("Cast", "dtype value span=")
def cast_node(ev: Evaluator, b: Bound) -> Any:
    return _cast(ev, b, b["value"], "dtype")


def _cast(ev: Evaluator, b: Bound, value: Any, dtype_parameter: str) -> Any:
    dtype = b.dtype(dtype_parameter)
    value = number(value)
    if dtype == dtypes.UNKNOWN or is_unknown(value):
        return Unknown(dtype, b.span, "cast")
    return build.cast(value, dtype, b.span)


def cast_call(ev: Evaluator, dtype: DType, args: list[Any], node: ast.Call | None) -> Any:
    """``T.float32(x)``; without arguments a variable of that type (an annotation), with several a vector of them."""
    from .forms import record_call

    if ev.builder is not None:  # on the host it may be torch's or numpy's
        record_call(ev, Api("tilelang.language", dtype.name), args, {}, node)
    if len(args) > 1:
        parts = [number(a) for a in args]
        if any(is_unknown(p) for p in parts) or dtypes.lanes(dtype.name) != len(parts):
            return unknown(dtype.name)
        scalar_type = dtypes.scalar(dtype.name)
        return build.call("pack", tuple(build.cast(build.lift(p), scalar_type) for p in parts), dtype.name, ev.span(node) if node is not None else None)
    if not args:
        return unknown(dtype.name) if ev.builder is None else Var(dtype.name, ev.span(node) if node is not None else None, "v", "let")
    value = args[0]
    if isinstance(value, str):
        if value in ("inf", "-inf", "nan"):
            return build.const(float(value), dtype.name)
        return unknown(dtype.name)
    value = number(value)
    if is_unknown(value):
        return Unknown(dtype.name, None, "cast")
    return build.cast(value, dtype.name, ev.span(node) if node is not None else None)


def astype(ev: Evaluator, value: Expr, args: list[Any], node: Any) -> Any:
    name = dtype_name(args[0]) if args else None
    if name is None:
        if args and isinstance(args[0], str) and node is not None:
            report_dtype(ev, args[0], ev.span(node.args[0]))
        return unknown("astype")
    return build.cast(value, name, ev.span(node) if node is not None else None)


@api("reinterpret", "value dtype span=")
def reinterpret(ev: Evaluator, b: Bound) -> Any:
    """Both orders of the arguments are in use: (dtype, value) up to 0.1.8, (value, dtype) after."""
    value, dtype = b["value"], b["dtype"]
    if dtype_name(value) is not None and dtype_name(dtype) is None:
        value, dtype = dtype, value
    name, operand = dtype_name(dtype), number(value)
    if name is None or is_unknown(operand):
        return unknown("reinterpret")
    return build.call("reinterpret", (build.lift(operand),), name, b.span)


@api("infinity", "dtype span=")
def infinity(ev: Evaluator, b: Bound) -> Any:
    dtype = b.dtype("dtype")
    return unknown("infinity") if dtype == dtypes.UNKNOWN else build.const(math.inf, dtype, b.span) if dtypes.is_float(dtype) else unknown("infinity")


def _limit(name: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        dtype = b.dtype("dtype")
        if dtype == dtypes.UNKNOWN:
            return unknown(name)
        value = limit(dtype, name == "max_value")
        return unknown(name) if value is None else build.const(value, dtype, b.span)

    return handler


api("max_value", "dtype span=")(_limit("max_value"))
api("min_value", "dtype span=")(_limit("min_value"))
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308,
            "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def limit(dtype: str, largest: bool) -> int | float | None:
    """The largest or smallest finite value of a type."""
    if dtypes.is_int(dtype):
        bits = dtypes.bits(dtype)
        if dtypes.is_unsigned(dtype):
            return 2**bits - 1 if largest else 0
        return 2 ** (bits - 1) - 1 if largest else -(2 ** (bits - 1))
    found = _LARGEST.get(dtype)
    return None if found is None else found if largest else -found


@api("dtype", "name")
def dtype_object(ev: Evaluator, b: Bound) -> Any:
    given = b["name"]
    name = dtypes.canonical(given) if isinstance(given, str) and given in dtypes.OBJECTS_ONLY else b.dtype("name")
    return unknown("dtype") if name is None or name == dtypes.UNKNOWN else DType(name)


def _const_int(name: str, dtype: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        value = number(b["value"])
        return unknown(name) if is_unknown(value) else build.cast(value, b.dtype("dtype") if b["dtype"] is not None else dtype, b.span)

    api(name, "value dtype=")(handler)


_const_int("const_like", "int32")


@api("any_of", "buffer")
def any_of(ev: Evaluator, b: Bound) -> Any:
    return _quantifier(ev, b, "any_of")


@api("all_of", "buffer")
def all_of(ev: Evaluator, b: Bound) -> Any:
    return _quantifier(ev, b, "all_of")


_MOST_TESTED = 256  # elements


def _quantifier(ev: Evaluator, b: Bound, name: str) -> Any:
    """The elements of a slice joined by and, or or; a slice of run-time size or many elements is not known."""
    from .elements import to_region

    region = to_region(b["buffer"])
    extents = None if region is None else [build.const_int(e) for e in region.extents]
    if region is None or not extents or None in extents or math.prod(extents) > _MOST_TESTED:  # type: ignore[arg-type]
        return Unknown("bool", b.span, f"T.{name}")
    result: Any = None
    for place in itertools.product(*(range(e) for e in extents)):  # type: ignore[arg-type]
        load = Load(region.dtype, b.span, region.buffer, tuple(m + p for m, p in zip(region.mins, place)))
        one = load if region.dtype == "bool" else build.binary("ne", load, build.const(0, region.dtype), b.span)
        result = one if result is None else build.binary("and" if name == "all_of" else "or", result, one, b.span)
    return result


@api("likely", "cond span=")
def likely(ev: Evaluator, b: Bound) -> Any:
    return number(b["cond"])


@api("clamp", "dst min_val max_val")
def clamp(ev: Evaluator, b: Bound) -> Any:
    values = [number(b[n]) for n in ("dst", "min_val", "max_val")]
    if any(is_unknown(v) for v in values):
        return unknown("clamp")
    bounded = plain(build.binary("min", build.binary("max", values[0], values[1], b.span), values[2], b.span))
    if not isinstance(bounded, Expr) or not dtypes.is_float(bounded.dtype) or not isinstance(values[0], Expr):
        return bounded
    # A NaN has no place between the bounds: it stays one, as in torch.clamp (max and min alone would give the lower bound).
    return build.select(build.call("isnan", (values[0],), "bool", b.span), values[0], bounded, b.span)


