"""Scalar data types, by their canonical names (``float16``, ``int32``, ``float8_e4m3fn``, ``bool`` ...)."""
from __future__ import annotations

import re
from functools import cache

# Every spelling TileLang 0.1.15 accepts for a scalar type, beside the canonical names themselves
# (tilelang/language/dtypes.py, 0.1.15: T.dtype(name) for each).
ALIASES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "short": "int16",
    "ulong": "uint64",
    "float8_e4m3": "float8_e4m3fn",
}

# Spellings that make a data type object (``T.dtype("double")``) but are no type names anywhere else: ``T.Tensor(shape, "double")``
# fails. ``T.float4_e2m1_unpacked`` exists as an object only.
OBJECTS_ONLY = frozenset(("double", "long", "short", "ulong", "tfloat32", "float4_e2m1_unpacked"))

FLOAT8 = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    "float8_e4m3b11fnuz", "float8_e3m4",
)
FLOAT6 = ("float6_e2m3fn", "float6_e3m2fn")
FLOAT4 = ("float4_e2m1fn", "float4_e2m1_unpacked")
INTEGERS = tuple(f"{u}int{b}" for u in ("", "u") for b in (1, 2, 4, 8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64", "tfloat32", *FLOAT8, *FLOAT6, *FLOAT4)
SCALARS = frozenset((*INTEGERS, *FLOATS, "bool", "handle"))

_BITS = {
    "bool": 8, "handle": 64, "bfloat16": 16, "tfloat32": 32,
    **dict.fromkeys(FLOAT8, 8), **dict.fromkeys(FLOAT6, 6), **dict.fromkeys(FLOAT4, 4),
    "float4_e2m1_unpacked": 8,
}
_DIGITS = re.compile(r"(\d+)$")
_LANES = re.compile(r"^(.*?)x(\d+)$")


UNKNOWN = "unknown"  # the dtype of a buffer or value that static evaluation could not know


@cache
def canonical(name: str) -> str | None:
    """The canonical name of a data type, or None if TileLang knows no such type. Vector types keep their ``xN``."""
    if name in SCALARS:
        return name
    if name in ALIASES:
        return ALIASES[name]
    match = _LANES.match(name)
    if match and canonical(match.group(1)):
        return f"{canonical(match.group(1))}x{match.group(2)}"
    return None


@cache
def scalar(dtype: str) -> str:
    """The element type of a vector type, and scalars unchanged."""
    match = _LANES.match(dtype)
    return match.group(1) if match else dtype


@cache
def lanes(dtype: str) -> int:
    match = _LANES.match(dtype)
    return int(match.group(2)) if match else 1


@cache
def bits(dtype: str) -> int:
    """Storage bits of one element (bool is stored as a byte)."""
    base = scalar(dtype)
    known = _BITS.get(base)
    if known is None:
        match = _DIGITS.search(base)
        if match is None:
            raise ValueError(f"{dtype!r} is no data type")
        known = int(match.group(1))
    return known * lanes(dtype)


@cache
def is_float(dtype: str) -> bool:
    return scalar(dtype) in FLOATS


@cache
def is_int(dtype: str) -> bool:
    """Signed or unsigned integers; not bool."""
    return scalar(dtype) in INTEGERS


def is_unsigned(dtype: str) -> bool:
    return dtype.startswith("uint")


@cache
def is_bool(dtype: str) -> bool:
    return scalar(dtype) == "bool"


@cache
def promote(a: str, b: str) -> str:
    """The common type of a binary operation's operands, as TVM's BinaryOpMatchTypes decides it."""
    if a == b:
        return a
    if "unknown" in (a, b):
        return "unknown"
    if is_float(a) and is_float(b):
        return a if bits(a) >= bits(b) else b
    if is_float(a):
        return a
    if is_float(b):
        return b
    if is_bool(a):
        return b
    if is_bool(b):
        return a
    if is_unsigned(a) == is_unsigned(b):
        return a if bits(a) >= bits(b) else b
    return f"int{max(bits(a), bits(b))}"
