"""``tilelang.language.dtypes``: the names of the data types."""
from ..ir import dtypes
from ..jit.values import dtype

_all_dtypes = sorted(dtypes.SCALARS - {"handle", *dtypes.OBJECTS_ONLY})

__all__ = ["_all_dtypes", "dtype"]
