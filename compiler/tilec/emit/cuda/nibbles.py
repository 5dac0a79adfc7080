"""4-bit numbers in CUDA: two to a byte in memory that threads share, the first one low; one to a byte in registers.

A float is its code, an unsigned char below 16; a signed integer is extended to a char where it is read. Storing one changes its half of a byte only, so that threads may write neighbours.
OCP Microscaling Formats, E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; conversions round to nearest even and saturate.
"""
from __future__ import annotations

from typing import Any

from ...ir.buffer import Buffer

FLOAT4 = "float4_e2m1fn"
CONVERSIONS = """__device__ __forceinline__ float tile_fp4_to_float(unsigned char code) {
  unsigned int m = code & 7u;
  float value = m < 2 ? 0.5f * m : __uint_as_float(((m >> 1) + 126u) << 23 | (m & 1u) << 22);
  return code & 8u ? -value : value;
}
__device__ __forceinline__ unsigned char tile_float_to_fp4(float value) {
  float a = fabsf(value);
  unsigned int m = a != a ? 7u : (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
  return static_cast<unsigned char>(m | ((__float_as_uint(value) >> 28) & 8u));
}
"""
_LOAD = """__device__ __forceinline__ unsigned char tile_load_nibble(const unsigned char* base, long long index) {
  return (base[index >> 1] >> ((index & 1) * 4)) & 15u;
}
"""
_STORE = """__device__ __forceinline__ void tile_store_nibble(unsigned char* base, long long index, unsigned char code) {
  unsigned long long place = reinterpret_cast<unsigned long long>(base + (index >> 1));
  unsigned int* word = reinterpret_cast<unsigned int*>(place & ~3ULL);
  unsigned int shift = (place & 3ULL) * 8 + (index & 1) * 4;
  atomicAnd(word, ~(15u << shift));
  atomicOr(word, (code & 15u) << shift);
}
"""


def is_packed(buffer: Buffer) -> bool:
    """Whether two elements share a byte."""
    return buffer.dtype in (FLOAT4, "int4", "uint4") and not buffer.scope.startswith("local")


def load(p: Any, base: str, index: str, dtype: str = FLOAT4) -> str:
    code = f"{p.use('tile_load_nibble', _LOAD)}({_bytes(base, dtype, 'const ')}, {index})"
    return f"static_cast<signed char>({code} << 28 >> 28)" if dtype == "int4" else code


def store(p: Any, base: str, index: str, value: str, dtype: str = FLOAT4) -> str:
    return f"{p.use('tile_store_nibble', _STORE)}({_bytes(base, dtype)}, {index}, {value})"


def _bytes(base: str, dtype: str, kind: str = "") -> str:
    return f"reinterpret_cast<{kind}unsigned char*>({base})" if dtype == "int4" else base
