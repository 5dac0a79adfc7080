"""Python numbers as an element type holds them: what compile-time arithmetic must round or wrap like the device does."""
from __future__ import annotations

import math
import struct

from . import dtypes

_PACKED = {"float32": "<f", "tfloat32": "<f", "float16": "<e"}


def held(value: int | float | bool, dtype: str) -> int | float | bool | None:
    """``value`` rounded (floats) or wrapped (integers) to ``dtype``; None for types whose rounding is left to the target."""
    if dtypes.is_bool(dtype):
        return bool(value)
    if dtypes.is_int(dtype):
        return _wrapped(int(value), dtype)
    if dtype in ("float64", "unknown"):
        return float(value) if dtype == "float64" else value
    value = float(value)
    if math.isnan(value) or math.isinf(value):
        return value
    if dtype in _PACKED:
        return _packed(value, _PACKED[dtype])
    return _bfloat16(_packed(value, "<f")) if dtype == "bfloat16" else None


def holds(value: float, dtype: str) -> bool:
    """Whether the whole part of ``value`` lies in the integer type: what conversions of others give depends on the target."""
    if math.isnan(value) or math.isinf(value):
        return False
    return _wrapped(int(value), dtype) == int(value)


def largest(x: float, y: float) -> float:
    """fmax: a NaN gives way to a number, whichever side it stands on."""
    return y if x != x or y > x else x


def smallest(x: float, y: float) -> float:
    return y if x != x or y < x else x


def _wrapped(value: int, dtype: str) -> int:
    bits = dtypes.bits(dtype)
    value &= (1 << bits) - 1
    return value if dtypes.is_unsigned(dtype) or value < 1 << (bits - 1) else value - (1 << bits)


def _packed(value: float, form: str) -> float:
    try:
        return float(struct.unpack(form, struct.pack(form, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _bfloat16(value: float) -> float:
    if math.isinf(value):
        return value
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + ((bits >> 16) & 1)
    return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0])
