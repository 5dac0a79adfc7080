"""Which element types Hopper's compiler gives to wgmma for a T.gemm (TileLang 0.1.15, src/cuda/op/gemm.cc)."""
from __future__ import annotations

from ..ir import dtypes


def wgmma_types(a: str, b: str, c: str, K: int, k_major: bool) -> bool:
    """``k_major``: both operands run along K in memory, which all but 16-bit elements must."""
    if a == b == "float16" and c in ("float16", "float32") or a == b == "bfloat16" and c == "float32":
        return K % 16 == 0
    if a in dtypes.FLOAT8 and b in dtypes.FLOAT8 and c in ("float16", "float32"):
        return k_major and K % 32 == 0
    if a == b == "tfloat32" and c == "float32":
        return k_major and K % 8 == 0
    return a in ("int8", "uint8") and b in ("int8", "uint8") and c == "int32" and k_major and K % 32 == 0
