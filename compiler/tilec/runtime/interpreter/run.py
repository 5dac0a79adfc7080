"""Running a program: statements in order, blocks one after another, parallel loops all iterations at once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import torch

from ...ir.buffer import BARRIER, CLUSTER_BARRIER, GLOBAL, VAR, Buffer
from ...ir.expr import Call, Expr, Var, walk
from ...ir.program import TileProgram
from ...ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Parallel, Stmt, Store, TileOp, While, expressions
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from .expressions import evaluate, indices_of, integer
from .memory import Unsupported, compute_dtype, convert
from .repeated import is_repeated, store_repeated
from .state import Fault, State
from .taint import Taint
from .tiles import execute_tile
from .vectors import is_vector, lanes_of, store_vector

MAX_WHILE = 1_000_000
_JUMPS = ("continue", "break", "return")


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


class OutOfTime(Exception):
    """The time given to an interpretation is used up."""


@dataclass
class InterpreterResult:
    """``writers``: for each global buffer the number, in ``statements``, of the statement that last wrote each element (-1: none)."""

    faults: list[Fault]
    statements: list[Stmt]
    writers: dict[Buffer, torch.Tensor] = field(default_factory=dict)


def interpret(program: TileProgram, arguments: Sequence[Any], *, seconds: float | None = None, progress: Callable[[int, int], None] | None = None) -> InterpreterResult:
    """Execute a program on CPU tensors and numbers given in ``program.params`` order; tensors are updated in place.

    Raises Unsupported (with a place) for what has no tile semantics here, OutOfTime when ``seconds`` are used up.
    """
    runner = _Runner(State(), None if seconds is None else time.monotonic() + seconds, progress)
    state = runner.state
    runner.bind(program, arguments)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiles are small: handing parts to other threads costs more than it saves, above all on a busy machine
    try:
        runner.body(program.body, None)
    except Unsupported as error:
        if error.span is None and state.statement is not None:
            error.span = state.statement.span
        raise
    finally:
        torch.set_num_threads(threads)
    return InterpreterResult(state.faults, state.statements, _writers(program, arguments, state))


def _writers(program: TileProgram, arguments: Sequence[Any], state: State) -> dict[Buffer, torch.Tensor]:
    """The writers of each tensor's elements, in the order of its indices."""
    found: dict[Buffer, torch.Tensor] = {}
    for param, value in zip(program.params, arguments):
        storage = state.memory.storages.get(param) if isinstance(param, Buffer) else None
        if storage is not None and storage.writer is not None:
            found[param] = torch.as_strided(storage.writer, tuple(value.shape), value.stride()).reshape(-1)  # type: ignore[index]
    return found


class _Runner:
    def __init__(self, state: State, deadline: float | None, progress: Any):
        self.state = state
        self.deadline = deadline
        self.progress = progress
        # which of many iterations or threads are done with: this iteration of the innermost loop, the loop, the kernel
        self.left: dict[str, torch.Tensor | None] = dict.fromkeys(_JUMPS)

    def bind(self, program: TileProgram, arguments: Sequence[Any]) -> None:
        if len(arguments) != len(program.params):
            raise Unsupported(f"{program.name} has {len(program.params)} parameters, {len(arguments)} are given")
        for param, value in zip(program.params, arguments):
            if isinstance(param, Var):
                self.state.values[param] = torch.tensor(value, dtype=compute_dtype(param.dtype))
        for param, value in zip(program.params, arguments):
            if isinstance(param, Buffer):
                self._bind_buffer(param, value)

    def _bind_buffer(self, buffer: Buffer, tensor: torch.Tensor) -> None:
        for extent, size in zip(buffer.shape, tensor.shape):
            if isinstance(extent, Var) and extent not in self.state.values:
                self.state.values[extent] = torch.tensor(size, dtype=compute_dtype(extent.dtype))
        if buffer.strides is None and not tensor.is_contiguous():
            raise Unsupported(f"the tensor for {buffer.name} is not contiguous")
        self.state.memory.bind(buffer, tensor)

    def _tick(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime

    # -- statements ----------------------------------------------------------------------------------------------
    def body(self, statements: Body, mask: torch.Tensor | None) -> None:
        for s in statements:
            active = self._staying(mask)
            if active is not None and active is not mask and not bool(active.any()):
                return
            self.state.statement = s
            self.state.pending.clear()
            _HANDLERS[type(s)](self, s, active)

    def _staying(self, mask: torch.Tensor | None) -> torch.Tensor | None:
        """Without the iterations or threads that have left the loop, its iteration or the kernel."""
        for left in self.left.values():
            if left is not None:
                mask = ~left if mask is None else mask & ~left
        return mask

    def launch(self, s: Launch, mask: Any) -> None:
        state = self.state
        grid = [integer(state, e) for e in s.grid]
        state.safe_values = {b: (v.value if hasattr(v, "value") else v) for b, v in s.attrs.get("safe_values", {}).items()}
        state.threads = _product([integer(state, t) for t in s.threads])
        state.blocks = _product(grid)
        used = self._thread_vars(s)
        # x moves fastest, as blocks are numbered on a GPU
        for number, reversed_block in enumerate(itertools.product(*[range(e) for e in reversed(grid)])):
            self._tick()
            if self.progress is not None:
                self.progress(number, state.blocks)
            for var, index in zip(s.block_vars, reversed(reversed_block)):
                state.values[var] = torch.tensor(index, dtype=torch.int32)
            self.left = dict.fromkeys(_JUMPS)
            state.phases.clear()
            state.arrivals.clear()
            try:
                self._block(s, used)
            except _Return:
                continue

    def _thread_vars(self, s: Launch) -> tuple[Var, ...]:
        return tuple(v for v in s.attrs.get("thread_vars", ()) if any(p is v for x in walk_statements(s.body) for e in expressions(x) for p in walk(e)))

    def _block(self, s: Launch, used: tuple[Var, ...]) -> None:
        """Kernels that name their thread run with all threads at once, each name a tensor over them, statement by statement."""
        if not used:
            self.body(s.body, None)
            return
        extents = [integer(self.state, t) for t in s.threads]
        numbers = torch.arange(self.state.threads, dtype=torch.int32)
        for position, var in enumerate(s.attrs["thread_vars"]):
            below = _product(extents[:position])
            self.state.values[var] = (numbers // below) % extents[position]
        saved = self.state.enter_lanes(numbers.to(torch.int64), True)
        try:
            self.body(s.body, torch.ones(self.state.threads, dtype=torch.bool))
        finally:
            self.state.leave_lanes(saved)

    def alloc(self, s: Alloc, mask: Any) -> None:
        if s.buffer.scope == GLOBAL and s.buffer.view_of is None:
            if "pointer" in s.buffer.attrs:
                raise Unsupported(f"{s.buffer.name}, a tensor made from a pointer", s.span)
            if s.buffer in self.state.memory.storages:
                return  # a workspace is there once, for all blocks
        if s.buffer.scope not in (BARRIER, CLUSTER_BARRIER):
            self.state.allocate(s.buffer)
        if s.buffer.scope == VAR and s.buffer.view_of is None:  # variables start at zero
            zero = torch.zeros((), dtype=compute_dtype(s.buffer.dtype))
            self.state.store(s.buffer, [torch.tensor(0) for _ in s.buffer.shape], zero, mask, s.span)

    def let(self, s: Let, mask: Any) -> None:
        if is_vector(s.value):
            self.state.vectors[s.var] = lanes_of(self.state, s.value, mask)
            return
        value, taint = self.state.tainted(lambda: evaluate(self.state, s.value, mask))
        self.state.values[s.var] = value
        self.state.tainted_values.pop(s.var, None)
        if taint is not None:
            self.state.tainted_values[s.var] = taint

    def store(self, s: Store, mask: Any) -> None:
        if is_vector(s.value) or any(map(is_vector, s.indices)):
            store_vector(self.state, s.buffer, s.indices, s.value, mask, s.span)
            return
        if is_repeated(self.state, s, mask):
            store_repeated(self.state, s, mask)
            return
        value, taint = self.state.tainted(lambda: evaluate(self.state, s.value, mask))
        value = convert(value, s.value.dtype, s.buffer.dtype)
        self.state.store(s.buffer, indices_of(self.state, s.buffer, s.indices, mask), value, mask, s.span, taint)

    def loop(self, s: For, mask: Any) -> None:
        start, extent = self._bound(s.start, mask), self._bound(s.extent, mask)
        kind = compute_dtype(s.var.dtype)
        with self._jumps("continue", "break"):
            for i in range(int(extent.max()) if extent.numel() else 0):
                self._tick()
                self.state.values[s.var] = (start + i * s.step).to(kind)
                active = mask
                if extent.numel() > 1:  # some iterations or threads go round more often than others
                    active = (i < extent) if mask is None else mask & (i < extent)
                if not self._iterate(s.body, active):
                    return

    def _iterate(self, body: Body, mask: Any) -> bool:
        """One iteration of a loop; whether there may be another."""
        self.left["continue"] = None
        try:
            self.body(body, mask)
        except _Break:
            return False
        except _Continue:
            pass
        return True

    @contextmanager
    def _jumps(self, *kinds: str) -> Iterator[None]:
        """A loop of its own for these kinds of jumps."""
        saved = {k: self.left[k] for k in kinds}
        self.left.update(dict.fromkeys(kinds))
        try:
            yield
        finally:
            self.left.update(saved)

    def _bound(self, e: Expr, mask: Any) -> torch.Tensor:
        value = self.state.settled(lambda: evaluate(self.state, e, mask)).to(torch.int64)
        if mask is not None and value.numel() > 1:
            value = torch.where(mask, value, torch.zeros_like(value))
        first = value.reshape(-1)[0] if value.numel() else value
        return first if bool((value == first).all()) else value

    def parallel(self, s: Parallel, mask: torch.Tensor | None) -> None:
        state = self.state
        if mask is not None and not bool(mask.any()):
            return
        extents = [integer(state, e) for e in s.extents]
        nested = state.lane is not None and not state.lanes_are_threads
        outer = mask if nested else None
        lead = outer.ndim if outer is not None else 0
        values, taints = dict(state.values), dict(state.tainted_values)
        self._enter_names(s.vars, len(extents) if nested else None)
        for position, (var, extent) in enumerate(zip(s.vars, extents)):
            shape = [1] * (lead + len(extents))
            shape[lead + position] = extent
            state.values[var] = torch.arange(extent, dtype=compute_dtype(var.dtype)).reshape(shape)
        box = [*(outer.shape if outer is not None else ()), *extents]
        active = torch.ones(box, dtype=torch.bool)
        if outer is not None:
            active = active & outer.reshape((*outer.shape, *[1] * len(extents)))
        lanes = state.enter_lanes(torch.arange(_product(box)).reshape(box), False)
        try:
            with self._jumps(*_JUMPS):
                if all(box):
                    self._iterate(s.body, active)
        finally:
            state.leave_lanes(lanes)
            state.values, state.tainted_values = values, taints

    def _enter_names(self, own: tuple[Var, ...], inner: int | None) -> None:
        """Values that differ between threads mean nothing here; those of an outer parallel loop get ``inner`` more dimensions."""
        state = self.state
        for var, value in list(state.values.items()):
            if var in own or (inner is None and (var.kind == "thread" or value.numel() > 1)):
                del state.values[var]
            elif inner is not None and value.ndim:
                state.values[var] = value.reshape((*value.shape, *[1] * inner))
        for var, taint in list(state.tainted_values.items()):
            if inner is not None and taint.mask.ndim:
                mask = taint.mask.reshape((*taint.mask.shape, *[1] * inner))
                state.tainted_values[var] = Taint(mask, taint.message, taint.span)

    def while_loop(self, s: While, mask: Any) -> None:
        with self._jumps("continue", "break"):
            for _ in range(MAX_WHILE):
                self._tick()
                self.left["continue"] = None
                staying = self._staying(mask)
                active = self._condition(s.cond, staying)
                if not bool(active.any()) or (staying is not None and not bool(staying.any())):
                    return
                if not self._iterate(s.body, staying if active.numel() == 1 else active):
                    return
        self.state.fault("loop", f"this loop still runs after {MAX_WHILE} iterations", s.span)

    def _condition(self, cond: Expr, mask: torch.Tensor | None) -> torch.Tensor:
        """Where a condition holds, of the iterations that take part; one element if it is the same for all."""
        value = self.state.settled(lambda: evaluate(self.state, cond, mask))
        return value if value.numel() == 1 or mask is None else value & mask

    def branch(self, s: If, mask: torch.Tensor | None) -> None:
        cond = self._condition(s.cond, mask)
        if cond.numel() == 1:
            self.body(s.then if bool(cond) else s.other, mask)
            return
        other = ~cond if mask is None else ~cond & mask
        if bool(cond.any()):
            self.body(s.then, cond)
        if s.other and bool(other.any()):
            self.body(s.other, other)

    def jump(self, s: Jump, mask: Any) -> None:
        if mask is not None and not bool(mask.all()):
            if s.kind == "return" and not self.state.lanes_are_threads:
                raise Unsupported("return under a condition that differs between iterations", s.span)
            left = self.left[s.kind]
            self.left[s.kind] = mask if left is None else left | mask
            return
        raise {"break": _Break, "continue": _Continue, "return": _Return}[s.kind]

    def evaluate(self, s: Evaluate, mask: Any) -> None:
        if is_vector(s.value):
            lanes_of(self.state, s.value, mask)
        elif isinstance(s.value, Call) and s.value.op.startswith("atomic_"):
            self.state.atomic_element(s.value, mask, need_old=False)
        else:
            evaluate(self.state, s.value, mask)

    def tile(self, s: TileOp, mask: torch.Tensor | None) -> None:
        single = s.op == "reducer_update" or s.op == "atomic" and (s.args.get("src") is None or s.args["kind"] in ("addx2", "addx4"))
        if self.state.lane is not None and not self.state.lanes_are_threads and not single and s.op not in _PARALLEL_SAFE:
            raise Unsupported(f"T.{s.op} inside T.Parallel", s.span)
        if mask is None or bool(mask.any()):
            execute_tile(self.state, s, mask)


def _product(extents: list[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


_PARALLEL_SAFE = {"store_slice", "store_wide", "dp4a", "sync_threads", "sync_warp", "annotate", "print", "fence_proxy_async", "device_assert"}
_HANDLERS: dict[type, Any] = {
    Launch: _Runner.launch,
    Alloc: _Runner.alloc,
    Let: _Runner.let,
    Store: _Runner.store,
    For: _Runner.loop,
    Parallel: _Runner.parallel,
    While: _Runner.while_loop,
    If: _Runner.branch,
    Jump: _Runner.jump,
    Evaluate: _Runner.evaluate,
    TileOp: _Runner.tile,
}
