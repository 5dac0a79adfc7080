"""Expressions over a box of iterations: every variable is a tensor or number that broadcasts over the box."""

from __future__ import annotations

from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import const_int
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var
from .memory import Unsupported, compute_dtype, convert, torch_dtype, wrap
from .vectors import is_vector, is_wide_load, lanes_of


def evaluate(state: Any, e: Expr, mask: torch.Tensor | None) -> torch.Tensor:
    """The value of an expression as a tensor; ``mask`` tells which iterations take part (None: all)."""
    handler = _HANDLERS.get(type(e))
    if handler is None:
        raise Unsupported(f"{type(e).__name__} is not interpreted", e.span)
    return handler(state, e, mask)


def integer(state: Any, e: Expr) -> int:
    """A value that is the same for all iterations, as a number."""
    value = state.settled(lambda: evaluate(state, e, None))
    if value.numel() != 1:
        first = value.reshape(-1)[0]
        if not bool((value == first).all()):
            raise Unsupported("a bound or place that differs between threads", e.span)
        value = first
    return int(value.item())


def indices_of(state: Any, buffer: Buffer, indices: Any, mask: torch.Tensor | None) -> list[torch.Tensor]:
    """The indices of an access; constant negative ones count from the end."""
    found = []
    for dim, e in enumerate(indices):
        value = const_int(e)
        if value is not None:
            found.append(torch.tensor(value + state.shape(buffer)[dim] if value < 0 and dim < buffer.ndim else value))
        else:
            found.append(state.settled(lambda e=e: evaluate(state, e, mask)))
    return found


def _const(state: Any, e: Const, mask: Any) -> torch.Tensor:
    return torch.tensor(e.value, dtype=compute_dtype(e.dtype))


def _var(state: Any, e: Var, mask: Any) -> torch.Tensor:
    value = state.values.get(e)
    if value is None:
        if e.kind == "thread":
            raise Unsupported(f"{e.name}, the number of a thread, inside T.Parallel", e.span)
        raise Unsupported(f"the value of {e.name} is not known", e.span)
    taint = state.tainted_values.get(e)
    if taint is not None:
        state.pending.append(taint)
    return value


def _unknown(state: Any, e: Unknown, mask: Any) -> torch.Tensor:
    raise Unsupported(f"a value is not known ({e.reason}); give an instance that fixes the kernel's parameters", e.span)


def _binary(state: Any, e: Binary, mask: Any) -> torch.Tensor:
    a = evaluate(state, e.a, mask)
    if e.op in ("and", "or"):
        b = evaluate(state, e.b, _narrow(mask, a if e.op == "and" else ~a))
        return a & b if e.op == "and" else a | b
    b = evaluate(state, e.b, mask)
    return compute(e.op, a, b, e.a.dtype)


def _narrow(mask: torch.Tensor | None, cond: torch.Tensor) -> torch.Tensor:
    return cond if mask is None else mask & cond


_COMPARE = {"lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne}


def compute(op: str, a: torch.Tensor, b: torch.Tensor, dtype: str) -> torch.Tensor:
    """One operation in ``dtype``, rounded to it."""
    if op in _COMPARE:
        return _COMPARE[op](a, b)
    if dtype.startswith("float8"):
        from .memory import saturate

        return saturate(_arithmetic(op, a, b, "float32"), dtype)
    return wrap(_arithmetic(op, a, b, dtype), dtype)


def _arithmetic(op: str, a: torch.Tensor, b: torch.Tensor, dtype: str) -> torch.Tensor:
    if op == "add":
        return a + b
    if op == "sub":
        return a - b
    if op == "mul":
        return a * b
    if op in ("min", "max"):
        return _extremum(op, a, b, dtype)
    if op in ("div", "floordiv", "floormod", "truncdiv", "truncmod"):
        return _divide(op, a, b, dtype)
    if op == "pow":
        return torch.pow(a, b)
    if op in ("bitand", "bitor", "bitxor"):
        return {"bitand": torch.bitwise_and, "bitor": torch.bitwise_or, "bitxor": torch.bitwise_xor}[op](a, b)
    if op == "shl":
        return torch.bitwise_left_shift(a, b)
    if op == "shr":
        return torch.bitwise_right_shift(a, b)
    raise Unsupported(f"operation {op}")


def _extremum(op: str, a: torch.Tensor, b: torch.Tensor, dtype: str) -> torch.Tensor:
    """fmin and fmax: a NaN yields to a number."""
    if dtypes.is_float(dtype):
        return (torch.fmin if op == "min" else torch.fmax)(a, b)
    return (torch.minimum if op == "min" else torch.maximum)(a, b)


def _divide(op: str, a: torch.Tensor, b: torch.Tensor, dtype: str) -> torch.Tensor:
    if dtypes.is_float(dtype):
        if op == "div":
            return a / b
        if op == "floordiv":
            return torch.floor(a / b)
        return torch.fmod(a, b) if op == "truncmod" else a - torch.floor(a / b) * b
    b = torch.where(b == 0, torch.ones_like(b), b)  # division by zero yields anything; it must not stop the run
    if op == "floordiv":
        return torch.div(a, b, rounding_mode="floor")
    if op == "floormod":
        return torch.remainder(a, b)
    quotient = torch.div(a, b, rounding_mode="trunc")
    return quotient if op in ("truncdiv", "div") else a - quotient * b


def _unary(state: Any, e: Unary, mask: Any) -> torch.Tensor:
    a = evaluate(state, e.a, mask)
    if e.op == "neg":
        return -a
    return ~a if e.op == "bitnot" else ~(a.to(torch.bool))


def _cast(state: Any, e: Cast, mask: Any) -> torch.Tensor:
    return convert(evaluate(state, e.a, mask), e.a.dtype, e.dtype)


def _select(state: Any, e: Select, mask: Any) -> torch.Tensor:
    cond = evaluate(state, e.cond, mask)
    then = evaluate(state, e.then, _narrow(mask, cond))
    other = evaluate(state, e.other, _narrow(mask, ~cond))
    return torch.where(cond, then, other)


def _load(state: Any, e: Load, mask: Any) -> torch.Tensor:
    return state.load(e.buffer, indices_of(state, e.buffer, e.indices, mask), mask, e.span)


# -- functions ----------------------------------------------------------------------------------------------------------------
_FUNCTIONS: dict[str, Any] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "exp10": lambda x: torch.pow(torch.tensor(10.0, dtype=x.dtype), x),
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "nearbyint": torch.round,
    "abs": torch.abs,
    "pow": torch.pow,
    "fmod": torch.fmod,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "ldexp": torch.ldexp,
    "nextafter": torch.nextafter,
    "copysign": torch.copysign,
    "round": lambda x: torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x)),
    "ieee_fsqrt": torch.sqrt,
    "ieee_frcp": torch.reciprocal,
    "ieee_frsqrt": torch.rsqrt,
    "ieee_add": torch.add,
    "ieee_sub": torch.sub,
    "ieee_mul": torch.mul,
    "ieee_fdiv": torch.div,
    "ieee_fmaf": lambda a, b, c: (a.double() * b.double() + c.double()).to(a.dtype),
    "fma": lambda a, b, c: (a.double() * b.double() + c.double()).to(a.dtype) if a.is_floating_point() else a * b + c,
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinite": torch.isfinite,
}
for _name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan"):
    _FUNCTIONS[f"__{_name}"] = _FUNCTIONS[_name]


def _call(state: Any, e: Call, mask: Any) -> torch.Tensor:
    if e.op.startswith("atomic_"):
        return state.atomic_element(e, mask)
    if e.op == "reinterpret" and not is_vector(e.args[0]) and not is_wide_load(e.args[0]):
        return _reinterpret(state, e, mask)
    if e.op == "extract_lane":
        return lanes_of(state, e.args[0], mask)[(e.attrs or {})["lane"]]
    if e.op == "reinterpret" or is_wide_load(e):
        return lanes_of(state, e, mask)[0]
    return apply(e.op, [evaluate(state, a, mask) for a in e.args], e.args[0].dtype if e.args else e.dtype, e.dtype, e)


def _bits_set(value: torch.Tensor, bits: int) -> torch.Tensor:
    return torch.stack([(value >> k) & 1 for k in range(bits)]).sum(0)


def _leading_zeros(value: torch.Tensor, bits: int) -> torch.Tensor:
    """As many as the highest bit that is set is below the top."""
    found = torch.full_like(value, bits)
    for k in range(bits):
        found = torch.where((value >> k) & 1 != 0, bits - 1 - k, found)
    return found


_OF_BITS = {"popcount": _bits_set, "clz": _leading_zeros}


def apply(name: str, args: list[torch.Tensor], source: str, dtype: str, e: Call) -> torch.Tensor:
    """A function by name on the values of its arguments."""
    if name in _OF_BITS:
        return convert(_OF_BITS[name](args[0].to(torch.int64), dtypes.bits(source)), "int64", dtype)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise Unsupported(f"T.{e.op} is not interpreted", e.span)
    if (e.attrs or {}).get("mode", "rn") != "rn":
        raise Unsupported(f"T.{e.op} rounded another way than to nearest is not interpreted", e.span)
    if name in ("isnan", "isinf", "isfinite"):
        return function(args[0].float() if dtypes.is_float(source) else args[0])
    if dtypes.is_float(source) and dtypes.bits(source) < 32 and name != "abs":
        result = function(*[a.float() for a in args])  # narrow floats are computed in float32 and rounded once
        return convert(result, "float32", dtype)
    return function(*args)


_HELD = {8: torch.int8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def _reinterpret(state: Any, e: Call, mask: Any) -> torch.Tensor:
    source, value = e.args[0].dtype, evaluate(state, e.args[0], mask)
    if dtypes.bits(source) != dtypes.bits(e.dtype) or dtypes.bits(source) % 8:
        raise Unsupported(f"T.reinterpret from {source} to {e.dtype} is not interpreted", e.span)
    raw = value.to(torch_dtype(source)) if dtypes.is_float(source) else value.to(_HELD[dtypes.bits(source)])
    if dtypes.is_float(e.dtype):
        return raw.contiguous().view(torch_dtype(e.dtype)).to(compute_dtype(e.dtype))
    return wrap(raw.contiguous().view(_HELD[dtypes.bits(e.dtype)]).to(compute_dtype(e.dtype)), e.dtype)


_HANDLERS: dict[type, Any] = {
    Const: _const,
    Var: _var,
    Unknown: _unknown,
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
    Select: _select,
    Load: _load,
    Call: _call,
}
