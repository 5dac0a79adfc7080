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


def get_tensor_supply(supply_type: Any = TensorSupplyType.Integer) -> Any:
    """A function from a kernel's parameter to a random tensor for it."""
    from ..ir.build import const_int
    from ..jit.profiler import _cuda_is_there, make_input

    def supply(param: Any) -> Any:
        shape = [const_int(e) if not isinstance(e, int) else e for e in param.shape]
        if any(e is None for e in shape):
            raise ValueError(f"{getattr(param, 'name', 'the parameter')} has a run-time extent; a random tensor needs all extents")
        return make_input([int(e or 0) for e in shape], str(param.dtype), supply_type, "cuda" if _cuda_is_there() else "cpu")

    return supply


__all__ = ["TensorSupplyType", "get_tensor_supply", "map_torch_type", "torch_assert_close"]
