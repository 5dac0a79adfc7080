"""The state of an interpretation: memory, variables, faults, barriers."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer
from ...ir.expr import Call, Expr, Var
from ...ir.stmt import Stmt
from ...source.span import Span
from .expressions import compute, evaluate, integer
from .memory import Memory, Unsupported, compute_dtype, convert

MAX_FAULTS = 20


@dataclass(frozen=True)
class Fault:
    """``kind``: ``out-of-bounds``, ``uninitialised-read``, ``barrier`` or ``assertion``."""

    kind: str
    message: str
    span: Span | None


@dataclass
class State:
    memory: Memory = field(default_factory=Memory)
    values: dict[Var, torch.Tensor] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    statements: list[Stmt] = field(default_factory=list)
    statement: Stmt | None = None
    safe_values: dict[Buffer, Any] = field(default_factory=dict)
    phases: dict[tuple[Buffer, int], int] = field(default_factory=dict)  # completed phases of each mbarrier
    arrivals: dict[tuple[Buffer, int], int] = field(default_factory=dict)
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    _ids: dict[int, int] = field(default_factory=dict)

    def fault(self, kind: str, message: str, span: Span | None) -> None:
        found = Fault(kind, message, span or (self.statement.span if self.statement is not None else None))
        if len(self.faults) < MAX_FAULTS and found not in self.faults:
            self.faults.append(found)

    def statement_id(self) -> int:
        """The number of the statement being executed, for provenance."""
        if self.statement is None:
            return -1
        if id(self.statement) not in self._ids:
            self._ids[id(self.statement)] = len(self.statements)
            self.statements.append(self.statement)
        return self._ids[id(self.statement)]

    # -- shapes and addresses ------------------------------------------------------------------------------------
    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer not in self.shapes:
            self.shapes[buffer] = tuple(integer(self, e) for e in buffer.shape)
        return self.shapes[buffer]

    def allocate(self, buffer: Buffer) -> None:
        self.shapes.pop(buffer, None)
        self.memory.allocate(buffer, self.shape(buffer))

    def _strides(self, buffer: Buffer) -> list[int]:
        if buffer.strides is not None:
            return [integer(self, s) for s in buffer.strides]
        strides, step = [], 1
        for extent in reversed(self.shape(buffer)):
            strides.insert(0, step)
            step *= extent
        return strides

    def address(self, buffer: Buffer, indices: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Flat element numbers and which of them lie inside the buffer."""
        shape = self.shape(buffer)
        if len(indices) != len(shape):
            raise Unsupported(f"{buffer.name} has {len(shape)} dimensions but is accessed with {len(indices)} indices")
        total: Any = torch.zeros((), dtype=torch.int64)
        inside: Any = torch.ones((), dtype=torch.bool)
        for index, extent, stride in zip(indices, shape, self._strides(buffer)):
            index = index.to(torch.int64)
            if index.numel() == 1 and -extent <= int(index) < 0:
                index = index + extent  # constant negative indices count from the end
            inside = inside & (index >= 0) & (index < extent)
            total = total + index * stride
        return total, inside

    # -- accesses ------------------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, indices: list[torch.Tensor], mask: torch.Tensor | None, span: Span | None) -> torch.Tensor:
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        self._check_bounds(buffer, indices, inside, mask, span, "read")
        shape = torch.broadcast_shapes(flat.shape, active.shape)
        where = torch.where(active, flat, torch.zeros_like(flat)).expand(shape)
        if storage.values.numel() == 0:
            return torch.zeros(shape, dtype=compute_dtype(buffer.dtype))
        if storage.written is not None:
            self._check_written(buffer, storage, where, active, indices, span)
        value = storage.values[where].to(compute_dtype(buffer.dtype))
        outside = self.safe_values.get(buffer, 0)
        return torch.where(active, value, torch.full_like(value, outside)) if not bool(active.all()) else value

    def _check_bounds(self, buffer: Buffer, indices: list[torch.Tensor], inside: torch.Tensor, mask: torch.Tensor | None, span: Span | None, what: str) -> None:
        if buffer.storage().scope == GLOBAL:
            return
        wrong = ~inside if mask is None else ~inside & mask
        if bool(wrong.any()):
            self.fault("out-of-bounds", f"{what} of {buffer.name} outside its shape {list(self.shape(buffer))}, first at index "
                       f"{first_index(indices, wrong)}", span)

    def _check_written(self, buffer: Buffer, storage: Any, where: torch.Tensor, active: torch.Tensor, indices: list[torch.Tensor], span: Span | None) -> None:
        fresh = ~storage.written[where] & active
        if bool(fresh.any()):
            self.fault("uninitialised-read", f"{buffer.name}{list(first_index(indices, fresh))} is read before anything wrote it", span)

    def store(self, buffer: Buffer, indices: list[torch.Tensor], value: torch.Tensor, mask: torch.Tensor | None, span: Span | None) -> None:
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        self._check_bounds(buffer, indices, inside, mask, span, "write")
        shape = torch.broadcast_shapes(flat.shape, active.shape, value.shape)
        keep = active.expand(shape)
        where = flat.expand(shape)[keep]
        storage.values[where] = value.expand(shape)[keep].to(storage.values.dtype)
        if storage.written is not None:
            storage.written[where] = True
        if storage.writer is not None:
            storage.writer[where] = self.statement_id()

    # -- atomics -------------------------------------------------------------------------------------------------
    def update(self, buffer: Buffer, indices: list[torch.Tensor], value: torch.Tensor, kind: str, mask: torch.Tensor | None, span: Span | None) -> torch.Tensor:
        """``buffer[indices] = buffer[indices] kind value`` one iteration after another; the old values."""
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        shape = torch.broadcast_shapes(flat.shape, active.shape, value.shape)
        keep = active.expand(shape).reshape(-1)
        where, values = flat.expand(shape).reshape(-1)[keep], value.expand(shape).reshape(-1)[keep]
        old = torch.zeros(shape, dtype=compute_dtype(buffer.dtype)).reshape(-1)
        if where.numel() == where.unique().numel():
            before = storage.values[where].to(compute_dtype(buffer.dtype))
            old[keep] = before
            storage.values[where] = combine(kind, before, values, buffer.dtype).to(storage.values.dtype)
        elif kind == "add" and dtypes.is_float(buffer.dtype):
            wide = storage.values.to(torch.float64)
            wide.index_add_(0, where, values.to(torch.float64))
            storage.values.copy_(wide.to(storage.values.dtype))
        else:
            for position, (at, one) in enumerate(zip(where.tolist(), values)):
                before = storage.values[at].to(compute_dtype(buffer.dtype))
                old[keep.nonzero()[position]] = before
                storage.values[at] = combine(kind, before, one, buffer.dtype).to(storage.values.dtype)
        if storage.writer is not None:
            storage.writer[where] = self.statement_id()
        return old.reshape(shape)

    def atomic_element(self, e: Call, mask: torch.Tensor | None) -> torch.Tensor:
        place = e.args[0]
        indices = [evaluate(self, i, mask) for i in place.indices]
        if e.op == "atomic_load":
            return self.load(place.buffer, indices, mask, e.span)
        value = evaluate(self, e.args[1], mask)
        return self.update(place.buffer, indices, value, e.op.removeprefix("atomic_"), mask, e.span)


def combine(kind: str, old: torch.Tensor, value: torch.Tensor, dtype: str) -> torch.Tensor:
    ops = {"add": "add", "addx2": "add", "addx4": "add", "max": "max", "min": "min", "or": "bitor", "and": "bitand", "xor": "bitxor"}
    if kind == "store":
        return value
    if kind not in ops:
        raise Unsupported(f"atomic {kind}")
    return compute(ops[kind], old, value, dtype)


def first_index(indices: list[torch.Tensor], where: torch.Tensor) -> tuple[int, ...]:
    """The indices of the first iteration at which ``where`` holds."""
    shape = torch.broadcast_shapes(where.shape, *[i.shape for i in indices])
    position = int(where.expand(shape).reshape(-1).nonzero()[0])
    return tuple(int(i.expand(shape).reshape(-1)[position]) for i in indices)


def as_tensor(state: State, e: Expr, dtype: str, mask: torch.Tensor | None) -> torch.Tensor:
    return convert(evaluate(state, e, mask), e.dtype, dtype)
