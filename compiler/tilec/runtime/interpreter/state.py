"""The state of an interpretation: memory, variables, faults, barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

import torch

from ...ir import dtypes
from ...ir.buffer import DESCRIPTOR, GLOBAL, LOCAL, VAR, Buffer
from ...ir.expr import Call, Var
from ...ir.stmt import Stmt
from ...records import dataclass
from ...source.span import Span
from .expressions import compute, evaluate, indices_of, integer
from .memory import Memory, Storage, Unsupported, compute_dtype, convert
from .taint import Taint, union

MAX_FAULTS = 20
PRIVATE = (LOCAL, VAR, DESCRIPTOR)  # scopes of memory that each thread has for itself
_T = TypeVar("_T")


@dataclass(frozen=True)
class Fault:
    """``kind``: ``out-of-bounds``, ``uninitialised-read``, ``barrier``, ``assertion`` or ``loop``."""

    kind: str
    message: str
    span: Span | None


@dataclass
class State:
    """``lane``: inside a parallel loop or a kernel written for threads, the number of each iteration or thread, in the shape
    that expressions there broadcast to; ``lanes_are_threads`` tells which of the two."""

    memory: Memory = field(default_factory=Memory)
    values: dict[Var, torch.Tensor] = field(default_factory=dict)
    vectors: dict[Var, list[torch.Tensor]] = field(default_factory=dict)  # names of vectors: a value for each lane
    faults: list[Fault] = field(default_factory=list)
    statements: list[Stmt] = field(default_factory=list)
    statement: Stmt | None = None
    safe_values: dict[Buffer, Any] = field(default_factory=dict)
    phases: dict[tuple[Buffer, int], int] = field(default_factory=dict)  # completed phases of each mbarrier
    arrivals: dict[tuple[Buffer, int], int] = field(default_factory=dict)
    reducer_start: dict[Buffer, Any] = field(default_factory=dict)  # the value each open reducer was given
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    lane: torch.Tensor | None = None
    lanes_are_threads: bool = False
    threads: int = 1
    blocks: int = 1
    tainted_values: dict[Var, Taint] = field(default_factory=dict)
    pending: list[Taint] = field(default_factory=list)  # met while evaluating, not yet answered for
    _spread: list[Storage] = field(default_factory=list)
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

    # -- meaningless values ----------------------------------------------------------------------------------------
    def tainted(self, work: Callable[[], _T]) -> tuple[_T, Taint | None]:
        """A result and which of its elements depend on unwritten memory."""
        saved, self.pending = self.pending, []
        try:
            value = work()
            return value, union(self.pending)
        finally:
            self.pending = saved

    def settled(self, work: Callable[[], _T]) -> _T:
        """A result that decides something: an index, a bound, a condition."""
        value, taint = self.tainted(work)
        self.report(taint)
        return value

    def report(self, taint: Taint | None) -> None:
        if taint is not None and bool(taint.mask.any()):
            self.fault("uninitialised-read", taint.message, taint.span)

    # -- shapes and addresses ------------------------------------------------------------------------------------
    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer not in self.shapes:
            self.shapes[buffer] = tuple(integer(self, e) for e in buffer.shape)
        return self.shapes[buffer]

    def allocate(self, buffer: Buffer) -> None:
        self.shapes.pop(buffer, None)
        self.memory.allocate(buffer, self.shape(buffer))

    def strides(self, buffer: Buffer) -> list[int]:
        if buffer.strides is not None:
            return [integer(self, s) for s in buffer.strides]
        strides: list[int] = []
        step = 1
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
        for index, extent, stride in zip(indices, shape, self.strides(buffer)):
            index = index.to(torch.int64)
            inside = inside & (index >= 0) & (index < extent)
            total = total + index * stride
        if buffer.offset is not None:
            total = total + integer(self, buffer.offset)
        return self._of_lane(buffer, total), inside

    # -- memory of single threads ------------------------------------------------------------------------------------
    def is_private(self, buffer: Buffer) -> bool:
        """Whether each lane has its own copy."""
        return self.lane is not None and buffer.storage().scope in PRIVATE

    def _of_lane(self, buffer: Buffer, flat: torch.Tensor) -> torch.Tensor:
        if not self.is_private(buffer):
            return flat
        lane = self.lane
        assert lane is not None
        storage = self._spread_out(buffer)
        if flat.ndim > lane.ndim:
            lane = lane.reshape((*lane.shape, *[1] * (flat.ndim - lane.ndim)))
        return lane * (storage.values.numel() // max(lane.numel(), 1)) + flat

    def _spread_out(self, buffer: Buffer) -> Storage:
        """One copy for each lane, each beginning as the one there was."""
        storage = self.memory.of(buffer)
        lane = self.lane
        assert lane is not None
        if storage.lane is lane:
            return storage
        if storage.source is not None:
            raise Unsupported(f"{buffer.name}, a view with another data type of memory that each thread has for itself", buffer.span)
        if storage.lane is not None:
            raise Unsupported(f"{buffer.name}, which each thread has for itself, inside T.Parallel")
        storage.values = storage.values.repeat(lane.numel())
        assert storage.written is not None
        storage.written = storage.written.repeat(lane.numel())
        storage.lane = lane
        self._spread.append(storage)
        return storage

    def enter_lanes(self, lane: torch.Tensor, threads: bool) -> tuple[Any, ...]:
        """Begin executing for many iterations or threads at once; the answer is for :meth:`leave_lanes`."""
        saved = (self.lane, self.lanes_are_threads, self._spread)
        self.lane, self.lanes_are_threads, self._spread = lane, threads, []
        return saved

    def leave_lanes(self, saved: tuple[Any, ...]) -> None:
        """Threads' own memory becomes one copy again; where the copies differ nobody can tell what a thread holds."""
        lanes = self.lane.numel() if self.lane is not None else 1
        for storage in self._spread:
            values, written = storage.values.view(lanes, -1), storage.written.view(lanes, -1)  # type: ignore[union-attr]
            last = values[-1:]
            same = ((values == last) | ((values != values) & (last != last))).all(0)
            storage.values, storage.written = last.reshape(-1).clone(), written.all(0) & same
            storage.lane, storage.complete = None, False
        self.lane, self.lanes_are_threads, self._spread = saved

    # -- accesses ------------------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, indices: list[torch.Tensor], mask: torch.Tensor | None, span: Span | None) -> torch.Tensor:
        """Elements; outside a global tensor 0. Unwritten ones are noted in ``pending``."""
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        self._check_bounds(buffer, indices, inside, mask, span, "read")
        shape = torch.broadcast_shapes(flat.shape, active.shape)
        if storage.values.numel() == 0:
            return torch.zeros(shape, dtype=compute_dtype(buffer.dtype))
        where = torch.where(active, flat, torch.zeros_like(flat))
        self._note_unwritten(buffer, storage, where, active, indices, span)
        value = storage.values[where].to(compute_dtype(buffer.dtype))
        if not where.ndim:
            value = value.clone()  # one element is a view of the memory, which may change before the value is used
        outside = self.safe_values.get(buffer, 0)
        return torch.where(active, value, torch.full_like(value, outside)) if not bool(active.all()) else value

    def _check_bounds(self, buffer: Buffer, indices: list[torch.Tensor], inside: torch.Tensor, mask: torch.Tensor | None, span: Span | None, what: str) -> None:
        if buffer.storage().scope == GLOBAL:
            return
        wrong = ~inside if mask is None else ~inside & mask
        if bool(wrong.any()):
            self.fault(
                "out-of-bounds",
                f"{what} of {buffer.name} outside its shape {list(self.shape(buffer))}, first at index {list(first_index(indices, wrong))}",
                span,
            )

    def _note_unwritten(self, buffer: Buffer, storage: Storage, where: torch.Tensor, active: torch.Tensor, indices: list[torch.Tensor], span: Span | None) -> None:
        fresh = storage.unwritten(where)
        if fresh is None:
            return
        fresh = fresh & active
        if not bool(fresh.any()):
            return
        origin = (storage.source or storage).origin
        if origin is None:
            text = f"{buffer.name}{list(first_index(indices, fresh))} is read before anything wrote it"
            self.pending.append(Taint(fresh, text, span or (self.statement.span if self.statement is not None else None)))
        else:
            self.pending.append(Taint(fresh, origin.message, origin.span))

    def store(self, buffer: Buffer, indices: list[torch.Tensor], value: torch.Tensor, mask: torch.Tensor | None, span: Span | None, taint: Taint | None = None) -> None:
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        self._check_bounds(buffer, indices, inside, mask, span, "write")
        shape = torch.broadcast_shapes(flat.shape, active.shape, value.shape)
        keep = active.expand(shape)
        where = flat.expand(shape)[keep]
        storage.values[where] = value.expand(shape)[keep].to(storage.values.dtype)
        self.note_written(storage, buffer, where, None if taint is None else Taint(taint.mask.expand(shape)[keep], taint.message, taint.span))

    def note_written(self, storage: Storage, buffer: Buffer, where: torch.Tensor, taint: Taint | None) -> None:
        """Remember what was written by whom; a meaningless value in global memory is a fault."""
        if storage.writer is not None:
            storage.writer[where] = self.statement_id()
        if taint is None or not bool(taint.mask.any()):
            storage.mark(where)
        elif buffer.storage().scope == GLOBAL:
            self.report(taint)
        else:
            owner = storage.source or storage
            owner.origin = owner.origin or taint
            storage.mark(where, ~taint.mask)

    # -- atomics -------------------------------------------------------------------------------------------------
    def update(
        self,
        buffer: Buffer,
        indices: list[torch.Tensor],
        value: torch.Tensor,
        kind: str,
        mask: torch.Tensor | None,
        span: Span | None,
        taint: Taint | None = None,
        need_old: bool = False,
    ) -> torch.Tensor:
        """``buffer[indices] = buffer[indices] kind value`` one iteration after another; the old values where they are needed."""
        flat, inside = self.address(buffer, indices)
        storage = self.memory.of(buffer)
        active = inside if mask is None else inside & mask
        self._check_bounds(buffer, indices, inside, mask, span, "atomic update")
        shape = torch.broadcast_shapes(flat.shape, active.shape, value.shape)
        keep = active.expand(shape).reshape(-1)
        where, values = flat.expand(shape).reshape(-1)[keep], value.expand(shape).reshape(-1)[keep]
        if kind != "store" and storage.values.numel():
            old_taint = self.tainted(lambda: self._note_unwritten(buffer, storage, flat.clamp(0, storage.values.numel() - 1), active, indices, span))[1]
            taint = union(t for t in (taint, old_taint) if t is not None)
        old = torch.zeros(shape, dtype=compute_dtype(buffer.dtype)).reshape(-1)
        if where.numel():
            old[keep] = _combine_all(storage.values, where, values, kind, buffer.dtype, need_old)
        spread = None if taint is None else Taint(taint.mask.expand(shape).reshape(-1)[keep], taint.message, taint.span)
        self.note_written(storage, buffer, where, spread)
        return old.reshape(shape)

    def atomic_element(self, e: Call, mask: torch.Tensor | None, need_old: bool = True) -> torch.Tensor:
        place = e.args[0]
        indices = indices_of(self, place.buffer, place.indices, mask)
        if e.op == "atomic_load":
            return self.load(place.buffer, indices, mask, e.span)
        value, taint = self.tainted(lambda: evaluate(self, e.args[1], mask))
        value = convert(value, e.args[1].dtype, place.buffer.dtype)
        return self.update(place.buffer, indices, value, e.op.removeprefix("atomic_"), mask, e.span, taint, need_old)


def _combine_all(memory: torch.Tensor, where: torch.Tensor, values: torch.Tensor, kind: str, dtype: str, need_old: bool) -> torch.Tensor:
    """Combine values into memory in order; the values each update found (meaningful if they are needed or no element is met twice)."""
    old = memory[where].to(compute_dtype(dtype))
    places, group = torch.unique(where, return_inverse=True)
    if places.numel() == where.numel():
        memory[where] = combine(kind, old, values, dtype).to(memory.dtype)
    elif kind in ("add", "addx2", "addx4") and dtypes.is_float(dtype) and not need_old:
        total = memory[places].to(torch.float64)
        total.index_add_(0, group, values.to(torch.float64))
        memory[places] = total.to(memory.dtype)
    else:
        for i, at in enumerate(where.tolist()):
            old[i] = memory[at].to(old.dtype)
            memory[at] = combine(kind, old[i], values[i], dtype).to(memory.dtype)
    return old


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
    position = int(where.expand(shape).reshape(-1).to(torch.uint8).argmax())
    return tuple(int(i.expand(shape).reshape(-1)[position]) for i in indices)
