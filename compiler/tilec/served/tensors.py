"""``tilelang.utils.tensor``: inputs and comparison."""
from __future__ import annotations

from typing import Any

from ..ir import dtypes
from ..jit.profiler import TensorSupplyType, compare


def torch_assert_close(tensor_a: Any, tensor_b: Any, rtol: float = 1e-2, atol: float = 1e-3, max_mismatched_ratio: float = 0.001, verbose: bool = False,
                       equal_nan: bool = True, **names: Any) -> bool:
    """True, or AssertionError where more than a share of the elements differs."""
    compare(tensor_a, tensor_b, rtol, atol, max_mismatched_ratio)
    return True


def map_torch_type(name: str) -> Any:
    """The torch dtype of a name."""
    from ..jit.values import dtype

    return dtype(dtypes.canonical(name) or name).as_torch()


__all__ = ["TensorSupplyType", "map_torch_type", "torch_assert_close"]
