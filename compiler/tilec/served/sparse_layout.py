"""``tilelang.cuda.intrinsics.sparse_layout``: how 2:4 sparse matrices are cut into groups."""
from ..ir import dtypes
from ..ir.sparsity import metadata_factor, sparsity_of
from ..jit.values import dtype

_TYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")
GROUP_CONFIG = {dtype(name): (form.kept, form.group) for name in _TYPES if (form := sparsity_of(name)) is not None}


def get_e_factor(a_dtype: str, meta_dtype: str) -> int:
    """How many elements of a row one word of metadata describes."""
    factor = metadata_factor(dtype(a_dtype), dtype(meta_dtype))
    if factor is None:
        raise ValueError(f"{meta_dtype} metadata for {a_dtype} elements: elements have 8, 16 or 32 bits, metadata are integers")
    return factor


def get_e_replicate_factor(a_dtype: str) -> int:
    """How many neighbouring threads hold the same metadata."""
    return 1 if dtypes.bits(dtype(a_dtype)) <= 8 else 2


__all__ = ["GROUP_CONFIG", "get_e_factor", "get_e_replicate_factor"]
