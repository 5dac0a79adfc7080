"""Exchange of values between the lanes of a warp, as device functions. All 32 lanes must take part."""
from __future__ import annotations

from ..ir import dtypes
from ..ir.build import const
from ..ir.expr import Call, Expr
from .atomics import C_TYPES

_SHUFFLED = ("float32", "float64", "int32", "uint32", "int64", "uint64", "float16", "bfloat16")


def _function(name: str, dtype: str, parameters: str, shuffle: str) -> tuple[str, str]:
    t = C_TYPES[dtype]
    wide = t if dtype in _SHUFFLED else "int"
    body = shuffle.replace("VALUE", f"static_cast<{wide}>(value)")
    return f"{name}_{dtype}", f"__device__ __forceinline__ {t} {name}_{dtype}({t} value, {parameters}) {{\n  return static_cast<{t}>({body});\n}}\n"


def shuffle_xor(value: Expr, offset: int) -> Call:
    name, source = _function("tile_shuffle_xor", value.dtype, "int offset", "__shfl_xor_sync(0xffffffffu, VALUE, offset)")
    return Call(value.dtype, None, "device_function", (value, const(offset)), {"name": name, "source": source, "writes": ()})


def shuffle_from(value: Expr, lane: int) -> Call:
    name, source = _function("tile_shuffle_from", value.dtype, "int lane", "__shfl_sync(0xffffffffu, VALUE, lane)")
    return Call(value.dtype, None, "device_function", (value, const(lane)), {"name": name, "source": source, "writes": ()})


def warp_scan(value: Expr, lane: Expr, kind: str) -> Call:
    """Inclusive prefix ``add`` or ``max`` over the lanes."""
    t = C_TYPES[value.dtype]
    wide = t if value.dtype in _SHUFFLED else "int"
    combine = "other + value" if kind == "add" else ("fmax(other, value)" if dtypes.is_float(value.dtype) else "other > value ? other : value")
    name = f"tile_warp_scan_{kind}_{value.dtype}"
    source = (f"__device__ __forceinline__ {t} {name}({t} value, int lane) {{\n  for (int step = 1; step < 32; step *= 2) {{\n"
              f"    {t} other = static_cast<{t}>(__shfl_up_sync(0xffffffffu, static_cast<{wide}>(value), step));\n"
              f"    if (lane >= step) value = static_cast<{t}>({combine});\n  }}\n  return value;\n}}\n")
    return Call(value.dtype, None, "device_function", (value, lane), {"name": name, "source": source, "writes": ()})
