"""Tensor maps made before a launch, from the addresses of its tensors (CUDA driver API, cuTensorMapEncodeTiled)."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from ..build.launch import Driver
from ..ir import dtypes
from ..ir.evaluate_int import evaluate
from ..ir.expr import Var
from ..transform.bulk.tensor_map import TensorMap

_SIZE, _ALIGNMENT = 128, 64
_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}  # CU_TENSOR_MAP_DATA_TYPE_UINT8, UINT16, UINT32, UINT64: bits are moved, not values
# Where values are combined: CU_TENSOR_MAP_DATA_TYPE_* of each type. What is added to is not flushed to zero.
_COMBINED = {"uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "bfloat16": 9}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CU_TENSOR_MAP_SWIZZLE_*
_L2_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B


class MadeMap:
    """One map's storage, encoded again whenever the tensor lies elsewhere."""

    def __init__(self, driver: Driver, wanted: TensorMap, values: Mapping[Var, int], zeros: Callable[[], Any]) -> None:
        """``zeros``: makes a tensor of a few zero bytes on the device, which stands for a tensor without elements."""
        self._driver, self._name = driver, wanted.buffer.name
        self._raw = ctypes.create_string_buffer(_SIZE + _ALIGNMENT)
        start = -ctypes.addressof(self._raw) % _ALIGNMENT
        self.value = (ctypes.c_ubyte * _SIZE).from_buffer(self._raw, start)
        rank, size = wanted.buffer.ndim, dtypes.bits(wanted.buffer.dtype) // 8
        extents = [int(evaluate(e, values)) for e in wanted.buffer.shape]
        strides = [int(evaluate(e, values)) * size for e in wanted.strides()]
        self._stand_in = zeros() if 0 in extents else None
        if self._stand_in is not None:
            extents, strides = [1] * rank, [16] * rank
        self._fixed: tuple[Any, ...] = (
            ctypes.c_int(_COMBINED[wanted.combined] if wanted.combined else _TYPES[8 * size]), ctypes.c_uint(rank), (ctypes.c_uint64 * rank)(*reversed(extents)),
            (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(strides[:-1])), (ctypes.c_uint32 * rank)(*reversed(wanted.box)),
            (ctypes.c_uint32 * rank)(*[1] * rank), ctypes.c_int(0), ctypes.c_int(_SWIZZLES[wanted.swizzle]), ctypes.c_int(_L2_PROMOTION), ctypes.c_int(0))
        self._address = 0
        if self._stand_in is not None:
            self.point_at(0)

    def point_at(self, address: int) -> None:
        if self._stand_in is not None:
            address = self._stand_in.data_ptr()
        if address == self._address:
            return
        kind, rank, *rest = self._fixed
        self._driver.encode_tensor_map(self.value, (kind, rank, ctypes.c_void_p(address), *rest), self._name)
        self._address = address
