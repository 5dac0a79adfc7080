"""Tensor maps made before a launch, from the addresses of its tensors (CUDA driver API, cuTensorMapEncodeTiled)."""
from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from ..build.launch import Driver
from ..ir import dtypes
from ..ir.evaluate_int import evaluate
from ..ir.expr import Var
from ..transform.bulk.tensor_map import TensorMap, Window

_SIZE, _ALIGNMENT = 128, 64
_TYPES = {8: 0, 16: 1, 32: 2, 64: 4}  # CU_TENSOR_MAP_DATA_TYPE_UINT8, UINT16, UINT32, UINT64: bits are moved, not values
# Where values are combined or rounded: CU_TENSOR_MAP_DATA_TYPE_* of each type. What is added to is not flushed to zero.
_COMBINED = {"uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "bfloat16": 9,
             "tfloat32": 11}  # the copy engine rounds to it, to the nearest
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CU_TENSOR_MAP_SWIZZLE_*
_L2_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B


def _boxes(wanted: TensorMap) -> tuple[Any, ...]:
    """What an instruction moves: extents, and steps between elements."""
    rank = wanted.buffer.ndim
    return (ctypes.c_uint32 * rank)(*reversed(wanted.box)), (ctypes.c_uint32 * rank)(*[1] * rank)


def _pixels(box: tuple[int, ...], window: Window) -> tuple[Any, ...]:
    """In im2col mode: the corners of the box of pixels, channels and pixels of an instruction, and steps between them."""
    lower, upper = (ctypes.c_int * 2)(*[window.lower] * 2), (ctypes.c_int * 2)(*[window.upper] * 2)
    return lower, upper, ctypes.c_uint(box[1]), ctypes.c_uint(box[0]), (ctypes.c_uint32 * 4)(1, window.stride, window.stride, 1)


class MadeMap:
    """One map's storage, encoded again whenever the tensor lies elsewhere."""

    def __init__(self, driver: Driver, wanted: TensorMap, values: Mapping[Var, int], zeros: Callable[[], Any]) -> None:
        """``zeros``: makes a tensor of a few zero bytes on the device, which stands for a tensor without elements."""
        self._name = wanted.buffer.name
        self._raw = ctypes.create_string_buffer(_SIZE + _ALIGNMENT)
        start = -ctypes.addressof(self._raw) % _ALIGNMENT
        self.value = (ctypes.c_ubyte * _SIZE).from_buffer(self._raw, start)
        rank, size = wanted.buffer.ndim, dtypes.bits(wanted.buffer.dtype) // 8
        extents = [int(evaluate(e, values)) for e in wanted.buffer.shape]
        strides = [int(evaluate(e, values)) * size for e in wanted.strides()]
        self._stand_in = zeros() if 0 in extents else None
        if self._stand_in is not None:
            extents, strides = [1] * rank, [16] * rank
        kind = _COMBINED[wanted.combined] if wanted.combined else _TYPES[8 * size]
        described = (ctypes.c_int(kind), ctypes.c_uint(rank), (ctypes.c_uint64 * rank)(*reversed(extents)),
                     (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(strides[:-1])))
        options = (ctypes.c_int(0), ctypes.c_int(_SWIZZLES[wanted.swizzle]), ctypes.c_int(_L2_PROMOTION), ctypes.c_int(0))
        self._encode, moved = driver.encode_tensor_map, _boxes(wanted)
        if wanted.window is not None:
            self._encode, moved = driver.encode_pixel_map, _pixels(wanted.box, wanted.window)
        self._fixed: tuple[Any, ...] = (*described, *moved, *options)
        self._address = 0
        if self._stand_in is not None:
            self.point_at(0)

    def point_at(self, address: int) -> None:
        if self._stand_in is not None:
            address = self._stand_in.data_ptr()
        if address == self._address:
            return
        kind, rank, *rest = self._fixed
        self._encode(self.value, (kind, rank, ctypes.c_void_p(address), *rest), self._name)
        self._address = address
