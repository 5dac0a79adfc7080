"""What an element or slice can be assigned."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import VAR, Buffer, Region
from ...ir.expr import Expr, Load
from ...source.span import Span
from ..evaluator import Evaluator
from ..values import is_unknown

WIDEST = 256  # bits of one vector store


def check_stored(ev: Evaluator, place: Load | Region, value: Any, span: Span) -> None:
    fault = _fault(place, value)
    if fault is not None:
        ev.problem("store-value", fault, span)


def _fault(place: Load | Region, value: Any) -> str | None:
    if is_unknown(value) or (isinstance(value, Buffer) and value.scope == VAR):
        return None
    name = place.buffer.name
    if isinstance(place, Load):
        if isinstance(value, Buffer):
            return f"{value.name} is a whole buffer; an element of {name} takes one element of it (T.copy moves tiles)"
        if isinstance(value, Region):
            return f"an element of {name} takes one value, not a slice of {value.buffer.name} (T.copy moves tiles)"
        if isinstance(value, (tuple, list, str, dict)):
            return f"an element of {name} takes a number, not a {type(value).__name__}"
        return None
    if isinstance(value, (int, float)) or (isinstance(value, Expr) and dtypes.lanes(value.dtype) == 1):
        return f"a slice of {name} cannot be assigned one value; T.fill({name}[...], value) does that"
    if isinstance(value, Region):
        return _vector_fault(place, value)
    return None


def _vector_fault(place: Region, value: Region) -> str | None:
    """Slices are vectors: as many lanes on both sides, no more than one instruction stores."""
    a, b = place.static_extents(), value.static_extents()
    if a is None or b is None or dtypes.UNKNOWN in (place.dtype, value.dtype):
        return None
    lanes, given = _product(a), _product(b)
    if lanes != given:
        return f"the slice of {place.buffer.name} has {lanes} elements, that of {value.buffer.name} {given}"
    if lanes * dtypes.bits(place.dtype) > WIDEST:
        return f"a slice is assigned by one vector store of at most {WIDEST} bits; use T.copy for tiles"
    return None


def _product(extents: tuple[int, ...]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def check_narrowing(ev: Evaluator, buffer: Buffer, value: Any, span: Span, done: str = "stored to") -> None:
    """A float stored to an integer buffer loses its fraction; TileLang warns of it too."""
    if isinstance(value, Expr) and dtypes.is_float(value.dtype):
        ev.problem("implicit-narrowing", f"a {value.dtype} value is {done} {buffer.name}, which is {buffer.dtype}: the fraction is cut off "
                   f"(write T.cast(value, {buffer.dtype!r}) if that is meant)", span)
    elif isinstance(value, float) and value != int(value) if _is_finite(value) else False:
        ev.problem("implicit-narrowing", f"{value} is {done} {buffer.name}, which is {buffer.dtype}: the fraction is cut off", span)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and value == value and value not in (float("inf"), float("-inf"))


# The largest finite value of each float type (IEEE 754, OFP8, OCP Microscaling Formats); TileLang 0.1.15
# refuses literals beyond (in bfloat16 only those beyond a figure of its own).
LARGEST = {"float32": 3.4028234663852886e38, "float16": 65504.0, "bfloat16": 3.89531e38, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0,
           "float4_e2m1fn": 6.0}


def check_literal(ev: Evaluator, dtype: str, value: Any, where: Any) -> None:
    """A number of the program's text that its type cannot hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or value in (float("inf"), float("-inf")):
        return
    if dtypes.is_int(dtype) and dtypes.lanes(dtype) == 1:
        bits = dtypes.bits(dtype)
        low, high = (0, 2**bits - 1) if dtypes.is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        outside = not low <= int(value) <= high
        span = f"{low} to {high}"
    else:
        high_float = LARGEST.get(dtype)
        outside = high_float is not None and abs(value) > high_float
        span = f"numbers up to {high_float}; T.max_value({dtype!r}) and T.infinity({dtype!r}) are its largest"
    if outside:
        ev.problem("literal-range", f"{value} does not fit {dtype}, which holds {span}", where)
