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


_TORCH_DTYPE_TO_STR = _NamesOfTorchTypes()

__all__ = ["_TORCH_DTYPE_TO_STR", "_all_dtypes", "dtype"]
