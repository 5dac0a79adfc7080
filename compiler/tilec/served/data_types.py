"""``tilelang.language.dtypes``: the names of the data types."""
from typing import Any

from ..ir import dtypes
from ..jit.values import dtype

_all_dtypes = sorted(dtypes.SCALARS - {"handle", *dtypes.OBJECTS_ONLY})


class _NamesOfTorchTypes(dict[Any, str]):
    """torch's types to names, worked out when asked: torch need not be loaded for it."""

    def __missing__(self, kind: Any) -> str:
        name = dtypes.canonical(str(kind).removeprefix("torch."))
        if not str(kind).startswith("torch.") or name is None:
            raise KeyError(kind)
        self[kind] = name
        return name


def resolve_torch_storage_dtype(value: Any) -> dtype:
    """The type of what torch stores for a type: two of 4 bits are a byte."""
    stored = str(dtype(value).as_torch()).removeprefix("torch.")
    return dtype({"float4_e2m1fn_x2": "float4_e2m1fnx2"}.get(stored, stored))


_TORCH_DTYPE_TO_STR = _NamesOfTorchTypes()

__all__ = ["_TORCH_DTYPE_TO_STR", "_all_dtypes", "dtype", "resolve_torch_storage_dtype"]
