"""Executes thread programs thread by thread: an independent judge of the CUDA lowering.

Every thread is a Python generator made from the program; it yields at block barriers and at instructions that a whole warp executes. Memory is
bytes with shadows, so that races between threads, accesses out of bounds, reads of bytes nobody wrote, misaligned wide accesses and
diverging barriers are faults.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from matrix_machine import Pointer, decode, encode
from thread_functions import IMMEDIATE, WARP_WIDE
from thread_source import thread_source
from tilec.ir import dtypes
from tilec.ir.buffer import GLOBAL, VAR, Buffer
from tilec.ir.build import const_int
from tilec.ir.expr import Expr, Load, Var, walk
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Launch


class Fault(AssertionError):
    """The program did something that is undefined on the device."""


_FORMATS = {"float16": "<e", "float32": "<f", "float64": "<d", "bool": "<?", "int8": "<b", "uint8": "<B", "int16": "<h", "uint16": "<H", "int32": "<i",
            "uint32": "<I", "int64": "<q", "uint64": "<Q"}


def unordered(a: Any, b: Any) -> bool:
    """Whether nothing is between two moments of different threads: no barrier of the block, and none of a warp that both are of."""
    return a[:2] == b[:2] and not (len(a) == 4 == len(b) and a[2] == b[2] and a[3] != b[3])


class Space:
    """Bytes that threads share, with who wrote and read each of them last. A moment is (block, barriers passed), and the warp and how often it met."""

    def __init__(self, name: str, data: np.ndarray, initialised: bool) -> None:
        self.name, self.data = name, data
        self.view = memoryview(data)
        self.known = bytearray(b"\1" * len(data) if initialised else len(data))
        self.writer: list[Any] = [None] * len(data)
        self.reader: list[Any] = [None] * len(data)

    def read(self, offset: int, size: int, thread: int, moment: Any, what: str = "") -> None:
        for k in range(offset, offset + size):
            if not self.known[k]:
                raise Fault(f"{self.name}{what}: byte {k} is read but was never written (thread {thread})")
            w = self.writer[k]
            if w is not None and w[1] != thread and (unordered(w[0], moment) or w[0][0] != moment[0]):
                raise Fault(f"{self.name}{what}: thread {thread} reads byte {k} that thread {w[1]} writes without a barrier between")
            r = self.reader[k]
            if r is None or not unordered(r[0], moment):
                self.reader[k] = (moment, thread)
            elif r[1] != thread:
                self.reader[k] = (moment if r[0] == moment else moment[:2], -1)

    def write(self, offset: int, size: int, thread: int, moment: Any, what: str = "", atomic: bool = False) -> None:
        me = -2 if atomic else thread
        for k in range(offset, offset + size):
            w, r = self.writer[k], self.reader[k]
            if w is not None and w[1] != me and (unordered(w[0], moment) or w[0][0] != moment[0]):
                raise Fault(f"{self.name}{what}: threads {w[1]} and {thread} both write byte {k} without a barrier between")
            if r is not None and r[1] != me and unordered(r[0], moment):
                raise Fault(f"{self.name}{what}: thread {thread} writes byte {k} that thread {r[1]} reads without a barrier between")
            self.writer[k] = (moment, me)
            self.known[k] = 1


class Place:
    """A buffer in some space: flat element indices to bytes."""

    def __init__(self, run: Run, buffer: Buffer, space: Space, base: int, shape: Sequence[int], strides: Sequence[int]) -> None:
        self.run, self.buffer, self.space, self.base = run, buffer, space, base
        self.shape, self.strides = tuple(shape), tuple(strides)
        self.size = dtypes.bits(buffer.dtype) // 8
        self.format = _FORMATS.get(buffer.dtype)

    def offset(self, indices: Sequence[int]) -> int:
        flat = 0
        for i, extent, stride in zip(indices, self.shape, self.strides):
            if not 0 <= i < extent:
                raise Fault(f"{self.buffer.name}: index {tuple(int(x) for x in indices)} is outside of {self.shape}")
            flat += int(i) * stride
        return self.base + flat * self.size

    def load(self, thread: int, *indices: int) -> Any:
        at = self.offset(indices)
        self.space.read(at, self.size, thread, self.run.moment_of(thread), f" ({self.buffer.name}{tuple(int(x) for x in indices)})")
        if self.format:
            return struct.unpack_from(self.format, self.space.view, at)[0]
        return float(decode(self.space.data[at:at + self.size][None], self.buffer.dtype)[0])

    def store(self, thread: int, value: Any, *indices: int) -> None:
        at = self.offset(indices)
        self.space.write(at, self.size, thread, self.run.moment_of(thread), f" ({self.buffer.name}{tuple(int(x) for x in indices)})")
        self.put(at, value)

    def put(self, at: int, value: Any) -> None:
        if self.format and self.format not in ("<e", "<f", "<d"):
            bits = self.size * 8
            value = int(value) & ((1 << bits) - 1)
            if self.format.islower() and self.format != "<?" and value >> (bits - 1):
                value -= 1 << bits
            struct.pack_into(self.format, self.space.view, at, value)
        else:
            with np.errstate(over="ignore"):
                self.space.data[at:at + self.size] = encode(np.array([value], dtype=np.float64), self.buffer.dtype).reshape(-1)

    def pointer(self, thread: int, *indices: int) -> Pointer:
        flat = sum(int(i) * s for i, s in zip(indices, self.strides))
        return SharedPointer(self, self.base + flat * self.size, thread)

    def aligned(self, thread: int, lanes: int, *indices: int) -> None:
        if self.offset(indices) % (lanes * self.size):
            raise Fault(f"{self.buffer.name}: a vector of {lanes} elements starts at byte {self.offset(indices)}, which is not aligned")


class SharedPointer(Pointer):
    def __init__(self, place: Place, offset: int, thread: int) -> None:
        super().__init__(place.space.data, offset, offset)
        self.place, self.thread = place, thread

    def read(self, count: int) -> np.ndarray:
        self.place.space.read(self.offset, count, self.thread, self.place.run.moment_of(self.thread), f" ({self.place.buffer.name})")
        return super().read(count)

    def write(self, raw: np.ndarray) -> None:
        self.place.space.write(self.offset, raw.size, self.thread, self.place.run.moment_of(self.thread), f" ({self.place.buffer.name})")
        super().write(raw)


class Private:
    """A register array or variable of one thread; None is a value never written."""

    def __init__(self, buffer: Buffer) -> None:
        shape = buffer.static_shape()
        assert shape is not None
        self.buffer, self.shape = buffer, shape
        self.values: list[Any] = [0 if buffer.scope == VAR else None] * math.prod(shape)  # variables start at zero
        self.round = rounding(buffer.dtype)

    def flat(self, indices: Sequence[int]) -> int:
        flat = 0
        for i, extent in zip(indices, self.shape):
            if not 0 <= i < extent:
                raise Fault(f"{self.buffer.name}: index {tuple(int(x) for x in indices)} is outside of {self.shape}")
            flat = flat * extent + int(i)
        return flat

    def load(self, thread: int, *indices: int) -> Any:
        value = self.values[self.flat(indices)]
        if value is None:
            raise Fault(f"{self.buffer.name}{tuple(int(x) for x in indices)} is read by thread {thread} but was never written")
        return value

    def store(self, thread: int, value: Any, *indices: int) -> None:
        self.values[self.flat(indices)] = self.round(value)

    def pointer(self, thread: int, *indices: int) -> PrivatePointer:
        return PrivatePointer(self, self.flat(indices))

    def aligned(self, thread: int, lanes: int, *indices: int) -> None:
        if self.flat(indices) % lanes:
            raise Fault(f"{self.buffer.name}: a vector of {lanes} registers starts at {self.flat(indices)}")


class PrivatePointer:
    address = 0

    def __init__(self, array: Private, start: int) -> None:
        self.array, self.start = array, start

    def values(self, dtype: str, count: int) -> np.ndarray:
        assert dtype == self.array.buffer.dtype, (dtype, self.array.buffer)
        found = self.array.values[self.start:self.start + count]
        if len(found) != count or None in found:
            raise Fault(f"{self.array.buffer.name}[{self.start}:{self.start + count}] is used but was not written completely")
        return np.array(found, dtype=np.int64 if dtypes.is_int(dtype) else np.float64 if dtype == "float64" else np.float32)

    def put(self, dtype: str, values: np.ndarray) -> None:
        assert dtype == self.array.buffer.dtype, (dtype, self.array.buffer)
        rounded = decode(encode(np.asarray(values), dtype), dtype)
        for k, v in enumerate(rounded):
            self.array.values[self.start + k] = v.item()

    def write(self, raw: np.ndarray) -> None:
        size = dtypes.bits(self.array.buffer.dtype) // 8
        for k, v in enumerate(decode(raw.reshape(-1, size), self.array.buffer.dtype)):
            self.array.values[self.start + k] = v.item()


def rounding(dtype: str):
    """A Python number to what a variable of the type holds."""
    if dtype == "float64":
        return float
    if dtype == "float32":
        return _float32
    if dtype == "bool":
        return bool
    if dtypes.is_float(dtype):
        return lambda x: float(decode(encode(np.array([x], np.float32), dtype), dtype)[0])
    if dtypes.is_int(dtype):
        bits, unsigned = dtypes.bits(dtype), dtypes.is_unsigned(dtype)

        def wrap(x: Any) -> int:
            x = int(x) & ((1 << bits) - 1)
            return x if unsigned or not x >> (bits - 1) else x - (1 << bits)

        return wrap
    return lambda x: x


def _float32(x: Any) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


class Run:
    """One execution of a program with arrays for its tensors (by name) and numbers for its scalars."""

    def __init__(self, program: TileProgram, arguments: dict[str, Any], target_threads: int = 0) -> None:
        self.program = program
        self.env: dict[Var, Any] = {}
        self.places: dict[Buffer, Place] = {}
        self.moment: Any = (0, 0)
        self.meetings: dict[int, int] = {}  # of the threads of each warp
        self.groups: dict[int, list[list[Any]]] = {}
        self.printed: list[str] = []
        self.barriers: dict[int, Any] = {}  # mbarriers of the block, by their place
        self.block, self.blocks = 0, 1
        self.outputs: dict[str, np.ndarray] = {}
        self._arguments(arguments)

    def _arguments(self, arguments: dict[str, Any]) -> None:
        buffers = list(dict.fromkeys([*(p for p in self.program.params if isinstance(p, Buffer)), *self.program.outputs,
                                      *self.program.attrs.get("workspaces", ())]))
        for p in self.program.params:
            if isinstance(p, Var):
                self.env[p] = arguments[p.name]
        for b in buffers:
            array = np.asarray(arguments[b.name]) if b.name in arguments else None
            if array is not None:
                for e, n in zip(b.shape, array.shape):
                    if isinstance(e, Var):
                        self.env[e] = n
        for b in buffers:
            self._tensor(b, arguments.get(b.name))

    def _tensor(self, b: Buffer, array: Any) -> None:
        shape = [self.number(e) for e in b.shape]
        strides = [math.prod(shape[k + 1:]) for k in range(len(shape))]
        size = dtypes.bits(b.dtype) // 8
        data = np.zeros(max(1, math.prod(shape)) * size, np.uint8)
        if array is not None:
            data[:] = encode(np.ascontiguousarray(array), b.dtype).reshape(-1)
        self.places[b] = Place(self, b, Space(b.name, data, array is not None), 0, shape, strides)

    def moment_of(self, thread: int) -> Any:
        return (*self.moment, thread // 32, self.meetings.get(thread // 32, 0))

    def number(self, e: Expr) -> int:
        known = const_int(e)
        if known is not None:
            return known
        from thread_source import evaluate_host

        return int(evaluate_host(e, self.env))

    def execute(self) -> dict[str, np.ndarray]:
        for s in self.program.body:
            assert isinstance(s, Launch), "host code is not interpreted"
            LaunchRun(self, s).execute()
            for place in self.places.values():  # the next launch comes after everything of this one
                place.space.writer = [None] * len(place.space.writer)
                place.space.reader = [None] * len(place.space.reader)
        return {b.name: self._value(p) for b, p in self.places.items() if b.scope == GLOBAL and b.view_of is None}

    def _value(self, p: Place) -> np.ndarray:
        return decode(p.space.data.reshape(-1, p.size), p.buffer.dtype).reshape(p.shape)


class LaunchRun:
    def __init__(self, run: Run, launch: Launch) -> None:
        self.run, self.launch = run, launch
        self.code, self.buffers = thread_source(launch)
        self.extents = [run.number(e) for e in launch.threads]
        self.threads = math.prod(self.extents)

    def execute(self) -> None:
        grid = [self.run.number(e) for e in self.launch.grid]
        if self.launch.attrs.get("persistent"):
            grid[0] = -(-grid[0] // 2)  # as if so many blocks ran at once
        self.blocks = math.prod(grid)
        for number in range(math.prod(grid)):
            rest, index = number, []
            for extent in grid:
                index.append(rest % extent)
                rest //= extent
            self._block(number, index)

    def _block(self, number: int, index: list[int]) -> None:
        run = self.run
        run.moment, run.groups = (number, 0), {}
        run.barriers, run.block, run.blocks = {}, number, self.blocks
        pool = Space("shared memory", np.zeros(max(1, self.launch.attrs.get("shared_bytes", 0)), np.uint8), False)
        run.pool = pool
        for b in self.buffers:
            if b.scope == GLOBAL and b.view_of is not None and b.offset is None:
                tensor, shape = run.places[b.storage()], [run.number(e) for e in b.shape]
                run.places[b] = Place(run, b, tensor.space, tensor.base, shape, [math.prod(shape[k + 1:]) for k in range(len(shape))])
            if b.scope.startswith("shared"):
                shape = b.static_shape()
                assert shape is not None
                assert b.attrs["byte_offset"] + (b.size_bytes() or 0) <= len(pool.data), f"{b.name} is outside of the pool"
                strides = [math.prod(shape[k + 1:]) for k in range(len(shape))]
                run.places[b] = Place(run, b, pool, b.attrs["byte_offset"], shape, strides)
        threads = [self._thread(t, index) for t in range(self.threads)]
        self._schedule(threads)

    def _thread(self, t: int, index: list[int]):
        x, y, _ = self.extents
        names = {**self.run.env, **dict(zip(self.launch.block_vars, index)),
                 **dict(zip(self.launch.attrs["thread_vars"], (t % x, t // x % y, t // (x * y))))}
        return self.code(t, names, self.run, Private, IMMEDIATE)

    def _schedule(self, threads: list[Any]) -> None:
        """Warps in turn, until all threads are at a barrier; the last warp first, so that an order nobody enforces shows."""
        waiting: dict[int, Any] = {}
        answers: dict[int, Any] = {}
        alive = set(range(self.threads))
        while alive:
            for warp in reversed(range(0, self.threads, 32)):
                self._warp([t for t in range(warp, min(warp + 32, self.threads)) if t in alive], threads, waiting, answers, alive)
            at_barrier = {t for t in alive if waiting.get(t) == "barrier"}
            if alive and self._released(waiting, alive):
                continue
            if alive and at_barrier != alive:
                raise Fault(f"{len(alive) - len(at_barrier)} of {len(alive)} threads do not reach a barrier")
            if alive and len(alive) != self.threads:
                raise Fault("a barrier after some threads have left the kernel")
            waiting.clear()
            self.run.moment = (self.run.moment[0], self.run.moment[1] + 1)

    def _released(self, waiting: dict[int, Any], alive: set[int]) -> bool:
        """Let go of the threads whose named barrier is complete or whose phase is over; whether there were any."""
        found = False
        for t in [t for t in alive if isinstance(waiting.get(t), tuple) and waiting[t][0] == "phase"]:
            barrier, parity = waiting[t][1]
            if self.run.barriers[barrier.offset].phase != parity:
                waiting[t], found = None, True
        for which in {tuple(waiting[t][1]) for t in alive if isinstance(waiting.get(t), tuple) and waiting[t][0] == "named"}:
            there = [t for t in alive if waiting.get(t) is not None and waiting[t] != "barrier" and waiting[t][0] == "named" and tuple(waiting[t][1]) == which]
            if len(there) == which[1]:
                found = True
                self.run.moment = (self.run.moment[0], self.run.moment[1] + 1)
                for t in there:
                    waiting[t] = None
        return found

    def _warp(self, lanes: list[int], threads: list[Any], waiting: dict[int, Any], answers: dict[int, Any], alive: set[int]) -> None:
        while True:
            for t in lanes:
                if t not in alive or waiting.get(t) is not None:
                    continue
                try:
                    waiting[t] = threads[t].send(answers.pop(t, None))
                except StopIteration:
                    alive.discard(t)
            here = [t for t in lanes if t in alive and waiting[t] != "barrier" and waiting[t][0] not in ("named", "phase")]
            if not here:
                return
            names = {waiting[t][0] for t in here}
            if len(names) != 1:
                raise Fault(f"the lanes of a warp execute different instructions: {sorted(names)}")
            name = names.pop()
            function = WARP_WIDE(name)
            results = function(self.run, here, [list(waiting[t][1]) for t in here])
            for k, t in enumerate(here):
                answers[t] = None if results is None else results[k]
                waiting[t] = None


def execute(program: TileProgram, **arguments: Any) -> dict[str, np.ndarray]:
    """The tensors after running a thread program; raises Fault."""
    return Run(program, arguments).execute()


__all__ = ["Fault", "Load", "Run", "execute", "walk"]
