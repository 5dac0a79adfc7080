"""Running a program: statements in order, blocks one after another, parallel loops all iterations at once."""
from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...ir.buffer import BARRIER, CLUSTER_BARRIER, Buffer
from ...ir.expr import Call, Expr, Var, walk
from ...ir.program import TileProgram
from ...ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Parallel, Stmt, Store, TileOp, While, expressions
from ...ir.stmt import walk as walk_statements
from .expressions import evaluate, integer
from .memory import Unsupported, compute_dtype, convert
from .state import Fault, State
from .tiles import execute_tile

MAX_WHILE = 1_000_000


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


def interpret(program: TileProgram, arguments: Sequence[Any], *, seconds: float | None = None,
              progress: Callable[[int, int], None] | None = None) -> InterpreterResult:
    """Execute a program on CPU tensors and numbers given in ``program.params`` order; tensors are updated in place.

    Raises Unsupported (with a place) for what has no tile semantics here, OutOfTime when ``seconds`` are used up.
    """
    runner = _Runner(State(), None if seconds is None else time.monotonic() + seconds, progress)
    runner.bind(program, arguments)
    runner.body(program.body, None)
    state = runner.state
    writers = {b: s.writer for b, s in state.memory.storages.items() if s.writer is not None}
    return InterpreterResult(state.faults, state.statements, writers)


class _Runner:
    def __init__(self, state: State, deadline: float | None, progress: Any):
        self.state = state
        self.deadline = deadline
        self.progress = progress

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
        if not tensor.is_contiguous():
            raise Unsupported(f"the tensor for {buffer.name} is not contiguous")
        self.state.memory.bind(buffer, tensor, True)

    def _tick(self) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime

    # -- statements ----------------------------------------------------------------------------------------------
    def body(self, statements: Body, mask: torch.Tensor | None) -> None:
        for s in statements:
            self.state.statement = s
            _HANDLERS[type(s)](self, s, mask)

    def launch(self, s: Launch, mask: Any) -> None:
        grid = [integer(self.state, e) for e in s.grid]
        self.state.safe_values = {b: (v.value if hasattr(v, "value") else v) for b, v in s.attrs.get("safe_values", {}).items()}
        total = 1
        for extent in grid:
            total *= extent
        threads = self._threads(s)
        # x moves fastest, as blocks are numbered on a GPU
        for number, reversed_block in enumerate(itertools.product(*[range(e) for e in reversed(grid)])):
            self._tick()
            if self.progress is not None:
                self.progress(number, total)
            for var, index in zip(s.block_vars, reversed(reversed_block)):
                self.state.values[var] = torch.tensor(index, dtype=torch.int32)
            self.state.phases.clear()
            self.state.arrivals.clear()
            try:
                self.body(s.body, threads)
            except _Return:
                continue

    def _threads(self, s: Launch) -> torch.Tensor | None:
        """Kernels that name their thread run with all threads at once, each name a tensor over them."""
        variables = s.attrs.get("thread_vars", ())
        used = [v for v in variables if any(p is v for x in walk_statements(s.body) for e in expressions(x) for p in walk(e))]
        if not used:
            return None
        tile = next((x for x in walk_statements(s.body) if isinstance(x, Parallel) or (isinstance(x, TileOp) and x.op not in _THREAD_SAFE)), None)
        if tile is not None:
            raise Unsupported("the kernel uses thread indices together with tile operators; compare with a reference function instead "
                              "(--against reference)", tile.span)
        if any(isinstance(x, Alloc) and x.buffer.scope in ("local", "local.var") for x in walk_statements(s.body)):
            raise Unsupported("the kernel keeps values per thread, which the tile interpreter does not model; compare with a reference "
                              "function instead (--against reference)", s.span)
        extents = [integer(self.state, t) for t in s.threads]
        grids = torch.meshgrid(*[torch.arange(e, dtype=torch.int32) for e in extents], indexing="ij")
        for var, values in zip(variables, grids):
            self.state.values[var] = values.reshape(-1)
        return torch.ones(extents[0] * extents[1] * extents[2], dtype=torch.bool)

    def alloc(self, s: Alloc, mask: Any) -> None:
        if s.buffer.scope not in (BARRIER, CLUSTER_BARRIER):
            self.state.allocate(s.buffer)

    def let(self, s: Let, mask: Any) -> None:
        self.state.values[s.var] = evaluate(self.state, s.value, mask)

    def store(self, s: Store, mask: Any) -> None:
        value = convert(evaluate(self.state, s.value, mask), s.value.dtype, s.buffer.dtype)
        indices = [evaluate(self.state, i, mask) for i in s.indices]
        self.state.store(s.buffer, indices, value, mask, s.span)

    def loop(self, s: For, mask: Any) -> None:
        start, extent = integer(self.state, s.start), integer(self.state, s.extent)
        kind = compute_dtype(s.var.dtype)
        for i in range(extent):
            self._tick()
            self.state.values[s.var] = torch.tensor(start + i * s.step, dtype=kind)
            try:
                self.body(s.body, mask)
            except _Break:
                break
            except _Continue:
                continue

    def parallel(self, s: Parallel, mask: torch.Tensor | None) -> None:
        if mask is not None and mask.ndim:
            raise Unsupported("T.Parallel inside a loop over threads", s.span)
        extents = [integer(self.state, e) for e in s.extents]
        saved = {v: self.state.values.get(v) for v in s.vars}
        for position, (var, extent) in enumerate(zip(s.vars, extents)):
            shape = [1] * len(extents)
            shape[position] = extent
            self.state.values[var] = torch.arange(extent, dtype=compute_dtype(var.dtype)).reshape(shape)
        if all(extents):
            self.body(s.body, torch.ones(extents, dtype=torch.bool))
        for var, value in saved.items():
            if value is not None:
                self.state.values[var] = value

    def while_loop(self, s: While, mask: Any) -> None:
        for _ in range(MAX_WHILE):
            self._tick()
            if not self._uniform(s.cond, mask):
                return
            try:
                self.body(s.body, mask)
            except _Break:
                return
            except _Continue:
                continue
        self.state.fault("barrier", f"this loop still runs after {MAX_WHILE} iterations", s.span)

    def _uniform(self, cond: Expr, mask: torch.Tensor | None) -> bool:
        value = evaluate(self.state, cond, mask)
        if value.numel() > 1 and bool(value.any()) != bool(value.all()):
            raise Unsupported("a while loop whose condition differs between threads", cond.span)
        return bool(value.reshape(-1)[0])

    def branch(self, s: If, mask: torch.Tensor | None) -> None:
        cond = evaluate(self.state, s.cond, mask)
        if cond.numel() == 1:
            self.body(s.then if bool(cond) else s.other, mask)
            return
        then, other = (cond, ~cond) if mask is None else (cond & mask, ~cond & mask)
        if bool(then.any()):
            self.body(s.then, then)
        if s.other and bool(other.any()):
            self.body(s.other, other)

    def jump(self, s: Jump, mask: Any) -> None:
        if mask is not None and not bool(mask.all()):
            raise Unsupported(f"{s.kind} under a condition that differs between iterations", s.span)
        raise {"break": _Break, "continue": _Continue, "return": _Return}[s.kind]

    def evaluate(self, s: Evaluate, mask: Any) -> None:
        if isinstance(s.value, Call) and s.value.op.startswith("atomic_"):
            self.state.atomic_element(s.value, mask)
        else:
            evaluate(self.state, s.value, mask)

    def tile(self, s: TileOp, mask: torch.Tensor | None) -> None:
        if mask is not None and s.op == "atomic" and s.args.get("src") is None:
            self._masked_atomic(s, mask)
            return
        if mask is not None and s.op not in _THREAD_SAFE:
            raise Unsupported(f"T.{s.op} inside a parallel loop", s.span)
        execute_tile(self.state, s)

    def _masked_atomic(self, s: TileOp, mask: torch.Tensor) -> None:
        dst = s.region("dst")
        indices = [evaluate(self.state, m, mask) for m in dst.mins]
        value = convert(evaluate(self.state, s.args["value"], mask), s.args["value"].dtype, dst.dtype)
        self.state.update(dst.buffer, indices, value.expand(mask.shape), s.args["kind"], mask, s.span)


_THREAD_SAFE = {"sync_threads", "sync_warp", "annotate", "print", "atomic", "fence_proxy_async", "device_assert"}
_HANDLERS: dict[type, Any] = {
    Launch: _Runner.launch, Alloc: _Runner.alloc, Let: _Runner.let, Store: _Runner.store, For: _Runner.loop, Parallel: _Runner.parallel,
    While: _Runner.while_loop, If: _Runner.branch, Jump: _Runner.jump, Evaluate: _Runner.evaluate, TileOp: _Runner.tile,
}
