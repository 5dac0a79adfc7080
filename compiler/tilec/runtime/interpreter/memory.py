"""Buffers while a program is interpreted: values, which elements were written, and by which statement."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import Buffer

TORCH = {
    "bool": torch.bool, "int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64,
    "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "tfloat32": torch.float32, "float64": torch.float64,
    "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2,
    # torch's wider unsigned types lack most arithmetic: int64 holds their values, wrapped at stores
    "uint16": torch.int64, "uint32": torch.int64, "uint64": torch.int64, "int4": torch.int8, "uint4": torch.uint8,
}


class Unsupported(Exception):
    """The interpreter cannot execute something; ``span`` says what."""

    def __init__(self, message: str, span: Any = None):
        super().__init__(message)
        self.span = span


def torch_dtype(dtype: str) -> torch.dtype:
    if dtype not in TORCH:
        raise Unsupported(f"data type {dtype} is not interpreted")
    return TORCH[dtype]


def compute_dtype(dtype: str) -> torch.dtype:
    """The type values have between loads and stores: 8-bit floats are computed on as float32."""
    kind = torch_dtype(dtype)
    return torch.float32 if kind in (torch.float8_e4m3fn, torch.float8_e5m2) else kind


@dataclass
class Storage:
    """``values`` flat; ``written`` flat booleans (None: everything counts as written); ``writer`` ids of statements (outputs only)."""

    values: torch.Tensor
    written: torch.Tensor | None
    writer: torch.Tensor | None = None


class Memory:
    """The storages of buffers. Views share the storage of their source, reinterpreted."""

    def __init__(self) -> None:
        self.storages: dict[Buffer, Storage] = {}

    def bind(self, buffer: Buffer, tensor: torch.Tensor, track_writer: bool) -> None:
        """A parameter: element (i, j) at the tensor's own strides, through a flat view of its storage order."""
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor.reshape(-1)
        writer = torch.full((flat.numel(),), -1, dtype=torch.int32) if track_writer else None
        self.storages[buffer] = Storage(flat, None, writer)

    def allocate(self, buffer: Buffer, shape: Sequence[int]) -> None:
        if buffer.view_of is not None:
            self.storages[buffer] = self._view(buffer)
            return
        total = 1
        for extent in shape:
            total *= extent
        values = torch.zeros(total, dtype=torch_dtype(buffer.dtype))
        self.storages[buffer] = Storage(values, torch.zeros(total, dtype=torch.bool))

    def _view(self, buffer: Buffer) -> Storage:
        assert buffer.view_of is not None
        source = self.storages[buffer.view_of]
        if buffer.dtype == buffer.view_of.dtype:
            return source
        target = torch_dtype(buffer.dtype)
        if dtypes.bits(buffer.dtype) != target.itemsize * 8 or dtypes.bits(buffer.view_of.dtype) != source.values.dtype.itemsize * 8:
            raise Unsupported(f"a view of {buffer.view_of.dtype} as {buffer.dtype}", buffer.span)
        return Storage(source.values.view(target), None)

    def of(self, buffer: Buffer) -> Storage:
        if buffer not in self.storages:
            raise Unsupported(f"{buffer.name} is used before it is allocated", buffer.span)
        return self.storages[buffer]


def wrap(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """Integers of types held in a wider torch type wrap around."""
    if dtype in ("uint16", "uint32"):
        return value & (2 ** dtypes.bits(dtype) - 1)
    return value


def convert(value: torch.Tensor, source: str, target: str) -> torch.Tensor:
    """A value conversion as C does it: floats truncate to integers, integers wrap."""
    kind = compute_dtype(target)
    if dtypes.is_float(source) and dtypes.is_int(target):
        value = torch.trunc(value.to(torch.float64))
        limit = 2.0**62
        return wrap(torch.nan_to_num(value, nan=0.0).clamp(-limit, limit).to(torch.int64), target).to(kind)
    if dtypes.is_bool(target):
        return value != 0
    if target.startswith("float8"):
        return saturate(value, target)
    return wrap(value.to(kind), target)


_FLOAT8_LIMIT = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def saturate(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """Rounding to an 8-bit float: beyond the largest finite value stays there, as CUDA's conversions do (__NV_SATFINITE)."""
    limit = _FLOAT8_LIMIT[dtype]
    clamped = torch.where(torch.isnan(value.float()), value.float(), value.float().clamp(-limit, limit))
    return clamped.to(torch_dtype(dtype)).to(torch.float32)
