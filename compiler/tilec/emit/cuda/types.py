"""Data types in CUDA: names, literals and conversions."""
from __future__ import annotations

import math

from ...ir import dtypes
from ...ir.held import held
from ...source.span import Span
from ...transform.errors import LoweringError

NAMES = {
    "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short", "int32": "int",
    "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long", "float16": "__half", "bfloat16": "__nv_bfloat16",
    "float32": "float", "tfloat32": "float", "float64": "double", "float8_e4m3fn": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2",
    "float8_e8m0fnu": "__nv_fp8_e8m0", "float4_e2m1fn": "unsigned char", "int4": "signed char", "uint4": "unsigned char", "handle": "unsigned long long", "void": "void",
}
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h", "float8_e4m3fn": "cuda_fp8.h", "float8_e5m2": "cuda_fp8.h", "float8_e8m0fnu": "cuda_fp8.h"}
HALVES = ("float16", "bfloat16")
FLOAT4 = "float4_e2m1fn"  # its values are codes (nibbles.py)
INT4 = ("int4", "uint4")  # a value is a whole char in registers, half a byte in memory (nibbles.py)
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")


def c_type(dtype: str, span: Span | None = None) -> str:
    """The CUDA name of a scalar type. Raises LoweringError for types that have no storage of their own."""
    if dtype not in NAMES:
        raise LoweringError(f"data type {dtype} cannot be compiled for CUDA yet", span)
    return NAMES[dtype]


def literal(value: int | float | bool, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    if dtypes.is_int(dtype):
        return _integer(int(value), dtype)
    if dtype == "float64":
        return _double(float(value))
    if dtype == "float8_e5m2" and math.isinf(value):  # a conversion would saturate
        return _infinity_e5m2(float(value))
    text = _float(float(value))
    return text if dtype in ("float32", "tfloat32") else convert(text, "float32", dtype)


def _infinity_e5m2(value: float) -> str:
    bits = "0x7c" if value > 0 else "0xfc"
    return f"[] {{ __nv_fp8_e5m2 made; made.__x = {bits}; return made; }}()"


def _integer(value: int, dtype: str) -> str:
    suffix = {"int64": "LL", "uint64": "ULL", "uint32": "u"}.get(dtype, "")
    if dtype == "int64" and value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if dtype == "int32" and value == -(2**31):
        return "(-2147483647 - 1)"
    return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"


def _float(value: float) -> str:
    if math.isnan(value):
        return "__int_as_float(0x7fffffff)"
    if math.isinf(value):
        return "__int_as_float(0x7f800000)" if value > 0 else "__int_as_float(0xff800000)"
    if abs(value) > 3.4028234663852886e38:  # the largest float32: what rounds to it is finite, the rest is not
        return _float(held(value, "float32"))  # type: ignore[arg-type]
    text = repr(value)
    text = text if any(c in text for c in ".e") else text + ".0"
    return f"{text}f" if value >= 0 and not text.startswith("-") else f"({text}f)"


def _double(value: float) -> str:
    if math.isnan(value):
        return "__longlong_as_double(0x7fffffffffffffffLL)"
    if math.isinf(value):
        return "__longlong_as_double(0x7ff0000000000000LL)" if value > 0 else "__longlong_as_double(0xfff0000000000000LL)"
    return repr(value) if value >= 0 else f"({value!r})"


def convert(text: str, source: str, target: str) -> str:
    """An expression's value in another type: round to nearest even into floats, truncation into integers."""
    if source == target or {source, target} == {"float32", "tfloat32"}:
        return text
    wide = to_float(text, source)
    if target in ("float32", "tfloat32"):
        return wide if wide is not None else f"static_cast<float>({text})"
    if target in HALVES or target in FLOAT8 or target == FLOAT4:
        value = wide if wide is not None else f"static_cast<float>({text})"
        if target == FLOAT4:
            return f"tile_float_to_fp4({value})"
        if target == "float16":
            return f"__float2half_rn({value})"
        return f"__float2bfloat16_rn({value})" if target == "bfloat16" else f"{NAMES[target]}({value})"
    value = wide if wide is not None else text
    if target in INT4:
        wrapped = f"static_cast<int>({value}) << 28 >> 28" if target == "int4" else f"static_cast<int>({value}) & 15"
        return f"static_cast<{NAMES[target]}>({wrapped})"
    return f"static_cast<{NAMES[target]}>({value})"


def to_float(text: str, source: str) -> str | None:
    """A float of at most 32 bits as float32; None for types C++ converts by itself."""
    if source in ("float32", "tfloat32"):
        return text
    if source == "float16":
        return f"__half2float({text})"
    if source == "bfloat16":
        return f"__bfloat162float({text})"
    if source == FLOAT4:
        return f"tile_fp4_to_float({text})"
    return f"static_cast<float>({text})" if source in FLOAT8 else None
