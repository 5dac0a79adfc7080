"""``T.cast(value, dtype, round="rs", rbits=r)``: conversion with random bits (src/cuda/codegen/codegen_cuda.cc; PTX ISA, cvt.rs)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import build, dtypes
from ...ir.expr import Expr
from ..values import is_unknown, unknown

if TYPE_CHECKING:
    from ..evaluator import Evaluator
    from .registry import Bound

ROUNDED = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")  # what cvt.rs converts float32 to
_RESERVED = ("rn", "rz", "rp", "rm")  # names of PTX that T.cast takes and nothing lowers


def stochastic(ev: Evaluator, b: Bound, made: Any) -> Any:
    """The conversion that the options ask for; without options the plain one."""
    from .scalar import number

    mode, rbits = b["round"], b["rbits"]
    if is_unknown(mode) or is_unknown(rbits) or is_unknown(b["sat"]):
        return unknown("T.cast with options that are not known")
    problem, where = _problem(b, mode, rbits)
    if problem:
        ev.problem("rounding-mode", problem, b.where(where) if where in b.nodes else b.span)
        return made
    if mode != "rs":
        return made
    value, bits = number(b["value"]), number(rbits)
    if is_unknown(value) or is_unknown(bits):
        return unknown("T.cast with random bits that are not known")
    value, dtype = build.lift(value), b.dtype("dtype")
    if dtypes.scalar(value.dtype) != "float32" or dtypes.scalar(dtype) not in ROUNDED:
        ev.problem("rounding-mode", f"round='rs' converts float32 to {', '.join(ROUNDED)}; this is {value.dtype} to {dtype}", b.span)
        return made
    return build.call("cast_rs", (value, build.cast(bits, "uint32")), dtype, b.span)


def _problem(b: Bound, mode: Any, rbits: Any) -> tuple[str, str]:
    """What is wrong with the options themselves, and with which."""
    sat = b["sat"]
    if mode in _RESERVED:
        return f"round={mode!r} has no instruction yet; leave it out (round to nearest even), or use round='rs' with rbits", "round"
    if mode not in (None, "", "rs"):
        return f"{mode!r} is no way of rounding; there are '' (to nearest even) and 'rs' (stochastic, with rbits)", "round"
    if sat is not None and not isinstance(sat, bool) and not isinstance(sat, Expr):
        return f"sat is True or False, not {sat!r}", "sat"
    if mode == "rs" and rbits is None:
        return "round='rs' rounds with random bits; give them as rbits=", "round"
    if mode != "rs" and rbits is not None:
        return "rbits are the random bits of round='rs'; this cast rounds to nearest even and has no use for them", "rbits"
    if mode == "rs" and sat is False:
        return "round='rs' saturates; sat=False does not exist for it", "sat"
    return "", ""
