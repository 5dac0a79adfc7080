"""How long a kernel will take, estimated from its tile program: so that tiles can be chosen without running any.

Of each block are counted the multiply-adds of its matrix operations, the bytes they read from shared memory, the bytes of its copies, and
the work of its loops over elements. What takes longest decides, softly; a pipelined loop can be held up by the latency of its copies
where it has few stages; blocks come in rounds of as many as fit on the chip. The constants are in ``target/rates``.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, GLOBAL, Buffer, Region
from ..ir.build import const_int
from ..ir.evaluate_int import evaluate
from ..ir.expr import Binary, Call, Select, Unary, Var
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Launch, Parallel, Stmt, TileOp, While, bodies, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from ..target.chips import Target
from ..target.rates import Rates, rates
from ..transform.matrix.instruction import plan as plan_matrix
from ..transform.matrix.problem import MatrixProblem
from ..transform.matrix.shape import MATRIX_OPS, matrix_shape
from ..transform.matrix.wgmma import ROWS

_SOFT = 8  # the exponent with which bounds are combined
_OVERHEAD = 60  # clocks of an iteration's waiting and counting
_COPYING_THREADS = 128  # of a warpgroup that only copies
_SAMPLES = 16  # blocks looked at, where they differ
_BLOCK_SHARED = 1024  # bytes the system takes of each block's shared memory
_OTHER_REGISTERS = 40  # of a thread, beside fragments
_EXPENSIVE = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "pow", "erf", "sigmoid", "exp10"))


class NotEstimated(ValueError):
    """The kernel's work is not known without running it, or it does not fit the chip; the text says why."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """``rounds``: how often the chip is filled; ``resident``: blocks a multiprocessor; ``bound``: what holds the main loop back."""

    seconds: float
    rounds: int
    resident: int
    shared_bytes: int
    registers: int
    bound: str


@dataclass(slots=True)
class Work:
    """Clocks of a multiprocessor that a block's statements take of each unit."""

    tensor: float = 0.0
    shared: float = 0.0
    cache: float = 0.0
    scalar: float = 0.0

    def add(self, other: Work, times: float = 1.0) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))

    def clocks(self) -> float:
        return sum(getattr(self, name) ** _SOFT for name in self.__slots__) ** (1 / _SOFT)

    def bound(self) -> str:
        return max(self.__slots__, key=lambda name: getattr(self, name))


def estimate(program: TileProgram, target: Target, values: dict[Var, Any] | None = None) -> Estimate:
    """All launches of a program one after the other. Raises NotEstimated."""
    found = []
    try:
        for launch in program.launches():
            found.append(_Launch(launch, target, dict(values or {})).estimate())
    except (KeyError, ZeroDivisionError, MatrixProblem) as error:
        raise NotEstimated(str(error)) from None
    if not found:
        raise NotEstimated("the program launches nothing")
    longest = max(found, key=lambda e: e.seconds)
    return Estimate(sum(e.seconds for e in found), longest.rounds, longest.resident, longest.shared_bytes, longest.registers, longest.bound)


class _Launch:
    def __init__(self, s: Launch, target: Target, values: dict[Var, Any]) -> None:
        self.s, self.target, self.values, self.rates = s, target, values, rates(target)
        self.threads = math.prod(int(evaluate(e, values)) for e in s.threads)
        self.grid = [int(evaluate(e, values)) for e in s.grid]
        self.loops = [x for x in walk_statements(s.body) if isinstance(x, For) and x.kind == "pipelined"]
        self.specialised = target.wgmma and bool(self.loops) and self.threads % 128 == 0

    def estimate(self) -> Estimate:
        blocks, capacity = math.prod(self.grid), self.target.shared_bytes
        if not blocks:
            raise NotEstimated("there are no blocks")
        shared, registers = self._shared_bytes(), self._registers()
        if shared > capacity:
            raise NotEstimated(f"it needs {shared} bytes of shared memory a block, {self.target.name} has {capacity}")
        if registers > 255:
            raise NotEstimated(f"its fragments take {registers} registers a thread")
        resident = self._resident(shared, registers, blocks)
        per_block, bound = self._block(resident, shared)
        chip = max(self.target.sm_count, 1)
        rounds = math.ceil(blocks / (chip * resident))
        # The last round may hold fewer blocks a multiprocessor, which then share it with fewer others.
        rest = blocks - (rounds - 1) * chip * resident
        last = min(resident, math.ceil(rest / chip))
        clocks = ((rounds - 1) * resident + last) * per_block + self._fill()
        memory = self._tensor_bytes() / self.rates.memory
        return Estimate(max(clocks, memory) / self.rates.clock / 1e9 + self.rates.launch, rounds, resident, shared, registers, bound)

    # -- what a block holds ------------------------------------------------------------------------------------------------------
    def _stages(self) -> dict[Buffer, int]:
        found: dict[Buffer, int] = {}
        for loop in self.loops:
            for tile in _loaded(loop.body):
                found[tile] = max(int(loop.attrs.get("num_stages") or 1), 1)
        return found

    def _shared_bytes(self) -> int:
        stages = self._stages()
        return sum((x.buffer.size_bytes() or 0) * stages.get(x.buffer, 1) for x in walk_statements(self.s.body)
                   if isinstance(x, Alloc) and x.buffer.is_shared() and x.buffer.view_of is None)

    def _registers(self) -> int:
        held = sum((x.buffer.size_bytes() or 0) / 4 for x in walk_statements(self.s.body)
                   if isinstance(x, Alloc) and x.buffer.scope == FRAGMENT and x.buffer.view_of is None)
        return math.ceil(held / self.threads) + _OTHER_REGISTERS

    def _resident(self, shared: int, registers: int, blocks: int) -> int:
        threads = self.threads + (_COPYING_THREADS if self.specialised else 0)
        most = min((self.target.shared_bytes + _BLOCK_SHARED) // (shared + _BLOCK_SHARED), 2048 // threads, 65536 // (registers * self.threads))
        if self.specialised and self.threads > 128:
            most = 1  # registers are dealt out for one
        return max(1, min(most, math.ceil(blocks / max(self.target.sm_count, 1))))

    # -- what it does ------------------------------------------------------------------------------------------------------------
    def _block(self, resident: int, shared: int) -> tuple[float, str]:
        """Clocks of a block, on average, and what holds it back."""
        total = math.prod(self.grid)
        clocks, units = 0.0, Work()
        # Steps of the golden section fall evenly into a row of blocks, a column of them and the whole.
        numbers = [int(k * 0.6180339887 * total) % total for k in range(_SAMPLES)] if self._differs() else [0]
        for number in numbers:
            values, rest = dict(self.values), number
            for var, extent in zip(self.s.block_vars, self.grid):
                values[var] = rest % extent
                rest //= extent
            clocks += self._body(self.s.body, values, resident, shared, units)
        return clocks / len(numbers), units.bound()

    def _differs(self) -> bool:
        return any(v in self.s.block_vars for s in walk_statements(self.s.body) if isinstance(s, (For, If))
                   for e in ((s.extent, s.start) if isinstance(s, For) else (s.cond,)) for v in walk_expr(e))

    def _body(self, body: Body, values: dict[Var, Any], resident: int, shared: int, units: Work) -> float:
        clocks = 0.0
        plain = Work()
        for s in body:
            if isinstance(s, For) and s.kind == "pipelined":
                clocks += self._pipelined(s, values, resident, shared, units)
            elif isinstance(s, For):
                extent = int(evaluate(s.extent, values))
                clocks += extent * self._body(s.body, {**values, s.var: evaluate(s.start, values)}, resident, shared, units) if extent > 0 else 0
            elif isinstance(s, If):
                clocks += self._branch(s, values, resident, shared, units)
            elif isinstance(s, While):
                raise NotEstimated("how often a T.While loop runs is not known")
            elif isinstance(s, (TileOp, Parallel)):
                plain.add(self._work(s, values))
        units.add(plain)
        return clocks + plain.clocks()

    def _branch(self, s: If, values: dict[Var, Any], resident: int, shared: int, units: Work) -> float:
        try:
            return self._body(s.then if evaluate(s.cond, values) else s.other, values, resident, shared, units)
        except KeyError:  # depends on data or on the thread: the longer way
            return max(self._body(b, values, resident, shared, units) for b in (s.then, s.other))

    def _pipelined(self, s: For, values: dict[Var, Any], resident: int, shared: int, units: Work) -> float:
        extent = int(evaluate(s.extent, values))
        if extent <= 0:
            return 0.0
        inner = {**values, s.var: evaluate(s.start, values)}
        work = Work()
        for x in _flat(s.body):
            work.add(self._work(x, inner))
        units.add(work, extent)
        stage = sum(tile.size_bytes() or 0 for tile in _loaded(s.body))
        stages = max(int(s.attrs.get("num_stages") or 1), 1)
        if self.specialised and stages > 1 and stage:  # it takes more where memory is left
            stages += min(stages, max(0, (self.target.shared_bytes // resident - shared - self._stored_bytes()) // stage))
        late = (self.rates.latency + work.cache) / max(stages - 1, 1) / resident
        return extent * (max(work.clocks(), late) + _OVERHEAD / resident)

    def _stored_bytes(self) -> int:
        return 32 * 1024 if self.specialised else 0

    def _fill(self) -> float:
        """Until the first tile is there, and until the last is stored."""
        return self.rates.latency

    def _work(self, s: Stmt, values: dict[Var, Any]) -> Work:
        if isinstance(s, Parallel):
            return _elementwise(s, values, self.rates)
        if not isinstance(s, TileOp):
            return Work()
        if s.op in MATRIX_OPS:
            return self._matrix(s)
        size = 0.0
        for value in s.args.values():
            if isinstance(value, Region):
                size = max(size, _bytes(value, values))
        if s.op == "copy" and any(isinstance(r, Region) and r.buffer.scope == GLOBAL for r in s.args.values()):
            return Work(cache=size / self.rates.cache)
        return Work(scalar=2 * size / 4 / self.rates.scalar)

    def _matrix(self, s: TileOp) -> Work:
        shape = matrix_shape(s)
        chosen = plan_matrix(shape, self.threads, self.target)
        bits = dtypes.bits(shape.A.dtype)
        rate = self.rates.tensor * 16 / max(bits, 8)
        macs = float(shape.M * shape.N * shape.K)
        if chosen.wgmma is not None:
            w = chosen.wgmma
            a = 0 if shape.A.scope == FRAGMENT else ROWS * 32
            count = macs / (ROWS * w.width * (256 / bits))
            return Work(tensor=macs / rate, shared=count * (a + w.width * 32) / self.rates.shared)
        if chosen.tcgen05:
            return Work(tensor=macs / rate, shared=(shape.M + shape.N) * shape.K * bits / 8 / self.rates.shared)
        if chosen.mma is not None and chosen.grid is not None:
            rows, columns = shape.M / chosen.grid.m, shape.N / chosen.grid.n  # of a warp: both operands are read into registers
            warps = self.threads / 32
            slow = 2.0 if self.target.wgmma or self.target.tcgen05 else 1.0
            return Work(tensor=slow * macs / rate, shared=warps * (rows + columns) * shape.K * bits / 8 / self.rates.shared)
        return Work(scalar=macs / self.rates.scalar)

    def _tensor_bytes(self) -> float:
        """Every element of a tensor the kernel touches, once."""
        seen = {r.buffer for s in walk_statements(self.s.body) if isinstance(s, TileOp) for r in s.args.values() if isinstance(r, Region) and r.buffer.scope == GLOBAL}
        total = 0.0
        for b in seen:
            try:
                total += math.prod(int(evaluate(e, self.values)) for e in b.shape) * dtypes.bits(b.dtype) / 8
            except KeyError:
                continue
        return total


def _loaded(body: Body) -> Iterator[Buffer]:
    """Shared tiles that copies from tensors fill."""
    for s in walk_statements(body):
        src, dst = (s.args.get("src"), s.args.get("dst")) if isinstance(s, TileOp) and s.op == "copy" else (None, None)
        if isinstance(src, Region) and isinstance(dst, Region) and src.buffer.scope == GLOBAL and dst.buffer.is_shared():
            yield dst.buffer


def _flat(body: Body) -> Iterator[Stmt]:
    """Statements of a loop's body; both sides of a condition count."""
    for s in body:
        yield s
        if not isinstance(s, Parallel):
            for b in bodies(s):
                yield from _flat(b)


def _bytes(r: Region, values: dict[Var, Any]) -> float:
    try:
        return math.prod(int(evaluate(e, values)) for e in r.extents) * dtypes.bits(r.dtype) / 8
    except KeyError:
        return math.prod(const_int(e) or 1 for e in r.extents) * dtypes.bits(r.dtype) / 8


def _elementwise(s: Parallel, values: dict[Var, Any], rates: Rates) -> Work:
    elements = math.prod(int(evaluate(e, values)) for e in s.extents)
    cheap = special = 0
    for inner in walk_statements(s.body):
        for e in expressions(inner):
            for x in walk_expr(e):
                cheap += isinstance(x, (Binary, Unary, Select)) and dtypes.is_float(x.dtype)
                special += isinstance(x, Call) and x.op in _EXPENSIVE
    return Work(scalar=elements * (max(cheap, 1) / rates.scalar + special / rates.special))


