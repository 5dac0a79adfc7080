"""Narrow floats on the CPU: kept in memory in their own format, computed in float32, rounded after every operation.

TVM 0.27 mis-converts 8-bit floats at the ends of their range and reads bfloat16 wrongly where the value is bound to a name,
so buffers hold plain bits and the conversions are spelled out here. 4-bit elements lie two to a byte, the first one low. Rounding is to nearest even; 8-bit floats saturate, as CUDA's conversions do.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import tvm_compat as T
from ..records import dataclass

# Memory format -> (type of the stored bits, type its values are computed in).
STORED = {
    "bfloat16": ("uint16", "float32"), "float8_e4m3fn": ("uint8", "float32"), "float8_e5m2": ("uint8", "float32"),
    "float8_e8m0fnu": ("uint8", "float32"), "float4_e2m1fn": ("uint8", "float32"), "int4": ("uint8", "int32"), "uint4": ("uint8", "int32"),
    "tfloat32": ("float32", "float32"),
}
PACKED = ("float4_e2m1fn", "int4", "uint4")  # two elements a byte


def is_narrow(dtype: str) -> bool:
    return dtype in STORED and dtype != "tfloat32"


def storage_dtype(dtype: str) -> str:
    return STORED[dtype][0] if dtype in STORED else dtype


def value_dtype(dtype: str) -> str:
    """The type a value of a dtype is computed in."""
    return STORED[dtype][1] if dtype in STORED else dtype


def widen(dtype: str, stored: Any) -> Any:
    """The value of a stored element; of a packed type the stored bits are the element's own four."""
    return _named(T.cast("int32", stored), "int32", _WIDEN[dtype])


def narrow(dtype: str, value: Any) -> Any:
    """A value rounded, as the bits to store."""
    if dtype in ("int4", "uint4"):
        return T.cast("uint8", T.bitwise("bitand", value, _word(0xF)))
    bits = T.math("reinterpret", ("int32", value))
    return T.cast(storage_dtype(dtype), _named(bits, "int32", _NARROW[dtype]))


def kept(dtype: str, value: Any) -> Any:
    """The bits of a value that the type holds already: infinity stays, where rounding would saturate."""
    if dtype != "float8_e5m2":
        return narrow(dtype, value)
    bits = T.math("reinterpret", ("int32", value))

    def choose(word: Any) -> Any:
        infinite = T.binary("eq", T.bitwise("bitand", word, _word(0x7FFFFFFF)), _word(0x7F800000))
        sign = T.bitwise("bitand", T.bitwise("shr", word, _word(24)), _word(0x80))
        return T.if_then_else(infinite, T.bitwise("bitor", sign, _word(0x7C)), _NARROW[dtype](word))

    return T.cast(storage_dtype(dtype), _named(bits, "int32", choose))


def element_of(byte: Any, index: Any) -> Any:
    """One of the two elements of a byte."""
    return T.bitwise("bitand", T.bitwise("shr", T.cast("int32", byte), _nibble(index)), _word(0xF))


def replaced(byte: Any, index: Any, element: Any) -> Any:
    """A byte with one of its two elements exchanged."""
    shift = _nibble(index)
    kept = T.bitwise("bitand", T.cast("int32", byte), T.bit_not(T.bitwise("shl", _word(0xF), shift)))
    return T.cast("uint8", T.bitwise("bitor", kept, T.bitwise("shl", T.cast("int32", element), shift)))


def _nibble(index: Any) -> Any:
    return T.binary("mul", T.cast("int32", T.binary("floormod", index, T.constant(2, T.dtype_of(index)))), _word(4))


def rounded(dtype: str, value: Any) -> Any:
    """A float32 value rounded to what the type can hold."""
    return widen(dtype, narrow(dtype, value))


def _named(value: Any, dtype: str, body: Callable[[Any], Any]) -> Any:
    """``body(value)`` with the value computed once."""
    name = T.var("bits", dtype)
    return T.let(name, value, body(name))


def _word(value: int) -> Any:
    return T.constant(value, "int32")


def _float(bits: Any) -> Any:
    return T.math("reinterpret", ("float32", bits))


# -- reading --------------------------------------------------------------------------------------------------------------
def _sign(bits: Any) -> Any:
    return T.bitwise("shl", T.bitwise("bitand", bits, _word(0x80)), _word(24))


def _from_e4m3(bits: Any) -> Any:
    """Exponent and mantissa moved to float32's places, then scaled: exact for subnormal numbers too."""
    magnitude = T.bitwise("bitand", bits, _word(0x7F))
    scaled = T.binary("mul", _float(T.bitwise("shl", magnitude, _word(20))), T.constant(2.0**120, "float32"))
    signed = _float(T.bitwise("bitor", T.math("reinterpret", ("int32", scaled)), _sign(bits)))
    return T.if_then_else(T.binary("eq", magnitude, _word(0x7F)), _float(_word(0x7FC00000)), signed)


def _from_e5m2(bits: Any) -> Any:
    """The upper byte of a float16."""
    return T.cast("float32", T.math("reinterpret", ("float16", T.cast("uint16", T.bitwise("shl", bits, _word(8))))))


def _from_e8m0(bits: Any) -> Any:
    power = T.if_then_else(T.binary("eq", bits, _word(0)), _word(0x00400000), T.bitwise("shl", bits, _word(23)))
    return _float(T.if_then_else(T.binary("eq", bits, _word(255)), _word(0x7FC00000), power))


def _from_bfloat16(bits: Any) -> Any:
    return _float(T.bitwise("shl", bits, _word(16)))


def _from_e2m1(bits: Any) -> Any:
    magnitude = T.bitwise("bitand", bits, _word(7))
    scaled = T.binary("mul", _float(T.bitwise("shl", magnitude, _word(22))), T.constant(2.0**126, "float32"))
    return T.if_then_else(T.binary("lt", bits, _word(8)), scaled, T.binary("mul", scaled, T.constant(-1.0, "float32")))


def _from_int4(bits: Any) -> Any:
    return T.binary("sub", T.bitwise("bitxor", bits, _word(8)), _word(8))


_WIDEN: dict[str, Callable[[Any], Any]] = {
    "bfloat16": _from_bfloat16, "float4_e2m1fn": _from_e2m1, "int4": _from_int4, "uint4": lambda bits: bits,
    "float8_e4m3fn": _from_e4m3, "float8_e5m2": _from_e5m2, "float8_e8m0fnu": _from_e8m0,
}


# -- rounding -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Format:
    """``largest`` and ``smallest_normal``: float32 bit patterns; ``quantum``: the float to which adding a subnormal rounds it."""

    mantissa: int
    bias: int
    largest: int
    smallest_normal: int
    quantum: float
    nan: int = 0x7F


_FORMATS = {"float8_e4m3fn": Format(3, 7, 0x43E00000, 0x3C800000, 2.0**14), "float8_e5m2": Format(2, 15, 0x47600000, 0x38800000, 2.0**7)}


def _to_float8(bits: Any, f: Format) -> Any:
    magnitude = T.bitwise("bitand", bits, _word(0x7FFFFFFF))
    sign = T.bitwise("bitand", T.bitwise("shr", bits, _word(24)), _word(0x80))

    def finite(m: Any) -> Any:
        return T.if_then_else(T.binary("lt", m, _word(f.smallest_normal)), _subnormal(m, f), _normal(m, f))

    limited = T.binary("min", magnitude, _word(f.largest))
    number = T.bitwise("bitor", _named(limited, "int32", finite), sign)
    return T.if_then_else(T.binary("gt", magnitude, _word(0x7F800000)), _word(f.nan), number)


def _subnormal(m: Any, f: Format) -> Any:
    """The sum's mantissa counts multiples of the smallest number, rounded by the addition."""
    total = T.math("reinterpret", ("int32", T.binary("add", _float(m), T.constant(f.quantum, "float32"))))
    return T.bitwise("bitand", total, _word(0xFF))


def _normal(m: Any, f: Format) -> Any:
    shift = 23 - f.mantissa
    odd = T.bitwise("bitand", T.bitwise("shr", m, _word(shift)), _word(1))
    up = T.binary("add", T.binary("add", m, _word((1 << (shift - 1)) - 1)), odd)
    return T.binary("sub", T.bitwise("shr", up, _word(shift)), _word((127 - f.bias) << f.mantissa))


def _to_e8m0(bits: Any) -> Any:
    """The next power of two not below the magnitude."""
    magnitude = T.bitwise("bitand", bits, _word(0x7FFFFFFF))
    up = T.bitwise("shr", T.binary("add", magnitude, _word(0x7FFFFF)), _word(23))
    return T.if_then_else(T.binary("gt", magnitude, _word(0x7F800000)), _word(255), T.binary("min", up, _word(254)))


def _to_bfloat16(bits: Any) -> Any:
    odd = T.bitwise("bitand", T.bitwise("shr", bits, _word(16)), _word(1))
    up = T.bitwise("shr", T.binary("add", T.binary("add", bits, _word(0x7FFF)), odd), _word(16))
    nan = T.binary("gt", T.bitwise("bitand", bits, _word(0x7FFFFFFF)), _word(0x7F800000))
    return T.bitwise("bitand", T.if_then_else(nan, _word(0x7FC0), up), _word(0xFFFF))


def _to_e2m1(bits: Any) -> Any:
    """0, 0.5, 1, 1.5, 2, 3, 4, 6: the number of midpoints below the magnitude, ties to the even code."""
    magnitude = _float(T.bitwise("bitand", bits, _word(0x7FFFFFFF)))
    code: Any = _word(0)
    for n, midpoint in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        above = T.binary("gt" if n % 2 == 0 else "ge", magnitude, T.constant(midpoint, "float32"))
        code = T.binary("add", code, T.cast("int32", above))
    return T.bitwise("bitor", code, T.bitwise("bitand", T.bitwise("shr", bits, _word(28)), _word(8)))


def _rounding_to(f: Format) -> Callable[[Any], Any]:
    return lambda bits: _to_float8(bits, f)


_NARROW: dict[str, Callable[[Any], Any]] = {
    "bfloat16": _to_bfloat16, "float4_e2m1fn": _to_e2m1, "float8_e8m0fnu": _to_e8m0,
    **{name: _rounding_to(f) for name, f in _FORMATS.items()},
}
