"""Buffers while a program is interpreted: values, which elements were written, and by which statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...records import dataclass

TORCH = {
    "bool": torch.bool,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tfloat32": torch.float32,
    "float64": torch.float64,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    # torch's wider unsigned types lack most arithmetic: int64 holds their values, wrapped at stores
    "uint16": torch.int64,
    "uint32": torch.int64,
    "uint64": torch.int64,
    "int4": torch.int8,
    "uint4": torch.uint8,
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
    """``values`` flat; ``written`` flat booleans (None: everything counts as written); ``writer`` ids of statements (outputs only).

    ``source``: the storage that a view with another data type shares; it holds the knowledge of what was written.
    ``lane``: of memory that each thread has for itself, the iterations it was spread over (None: one copy stands for all).
    ``origin``: where a value that depends on unwritten memory came from, for those elements that hold such a value.
    """

    values: torch.Tensor
    written: torch.Tensor | None
    writer: torch.Tensor | None = None
    source: Storage | None = None
    lane: torch.Tensor | None = None
    origin: Any = None
    complete: bool = False  # every element is known to be written

    def unwritten(self, where: torch.Tensor) -> torch.Tensor | None:
        """Which of some elements nothing has written; None for none."""
        if self.source is not None:
            return self._unwritten_source(where)
        if self.written is None or self.complete:
            return None
        self.complete = bool(self.written.all())
        if self.complete:
            return None
        fresh = ~self.written[where]
        return fresh if bool(fresh.any()) else None

    def mark(self, where: torch.Tensor, written: Any = True) -> None:
        """Note that elements were written; ``written`` False or a tensor of booleans where what was written means nothing."""
        if self.source is not None:
            for part in self._source_elements(where):
                self.source.mark(part, written)
        elif self.written is not None:
            self.written[where] = written
            self.complete = self.complete and written is True

    def _source_elements(self, where: torch.Tensor) -> list[torch.Tensor]:
        assert self.source is not None
        mine, theirs = self.values.element_size(), self.source.values.element_size()
        if mine <= theirs:
            return [torch.div(where * mine, theirs, rounding_mode="floor")]
        return [where * (mine // theirs) + i for i in range(mine // theirs)]

    def _unwritten_source(self, where: torch.Tensor) -> torch.Tensor | None:
        assert self.source is not None
        result = None
        for part in self._source_elements(where):
            fresh = self.source.unwritten(part)
            if fresh is not None:
                result = fresh if result is None else result | fresh
        return result


class Memory:
    """The storages of buffers. Views share the storage of their source, reinterpreted."""

    def __init__(self) -> None:
        self.storages: dict[Buffer, Storage] = {}

    def bind(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        """A parameter: a flat view of the tensor's memory, which element (i, j) is found in by the buffer's strides."""
        span = 1 + sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
        flat = torch.as_strided(tensor, (span,), (1,), tensor.storage_offset())
        self.storages[buffer] = Storage(flat, None, torch.full((span,), -1, dtype=torch.int32))

    def allocate(self, buffer: Buffer, shape: Sequence[int]) -> None:
        if buffer.view_of is not None:
            self.storages[buffer] = self._view(buffer)
            return
        total = 1
        for extent in shape:
            total *= extent
        self.storages[buffer] = Storage(poison(torch_dtype(buffer.dtype), total), torch.zeros(total, dtype=torch.bool))

    def _view(self, buffer: Buffer) -> Storage:
        assert buffer.view_of is not None
        source = self.of(buffer.view_of)
        if buffer.dtype == buffer.view_of.dtype:
            return source
        target = torch_dtype(buffer.dtype)
        if dtypes.bits(buffer.dtype) != target.itemsize * 8 or dtypes.bits(buffer.view_of.dtype) != source.values.dtype.itemsize * 8:
            raise Unsupported(f"a view of {buffer.view_of.dtype} as {buffer.dtype}", buffer.span)
        return Storage(source.values.view(target), None, source=source)

    def of(self, buffer: Buffer) -> Storage:
        if buffer not in self.storages:
            raise Unsupported(f"{buffer.name} is used before it is allocated", buffer.span)
        return self.storages[buffer]


def poison(kind: torch.dtype, total: int) -> torch.Tensor:
    """Memory that nothing has written: NaN, or the bytes 0x55."""
    if kind.is_floating_point:
        return torch.full((total,), float("nan")).to(kind)
    if kind == torch.bool:
        return torch.zeros(total, dtype=kind)
    return torch.full((total * kind.itemsize,), 0x55, dtype=torch.uint8).view(kind)


def wrap(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """Integers of types held in a wider torch type wrap around."""
    if dtype in ("uint16", "uint32"):
        return value & (2 ** dtypes.bits(dtype) - 1)
    if dtype == "uint4":
        return value & 15
    if dtype == "int4":
        return ((value & 15) ^ 8) - 8
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
        return value if source == target else saturate(value, target)
    return wrap(value.to(kind), target)


_FLOAT8_LIMIT = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def saturate(value: torch.Tensor, dtype: str) -> torch.Tensor:
    """Rounding to an 8-bit float: beyond the largest finite value stays there, as CUDA's conversions do (__NV_SATFINITE)."""
    limit = _FLOAT8_LIMIT[dtype]
    clamped = torch.where(torch.isnan(value.float()), value.float(), value.float().clamp(-limit, limit))
    return clamped.to(torch_dtype(dtype)).to(torch.float32)
