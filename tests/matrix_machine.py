"""A block of threads in lockstep, over bytes: executes thread programs so that the matrix lowering can be tested.

Every value is an array with one entry a thread. Device functions are looked up by name and get whole warps. Shared
memory is one pool with addresses, so descriptors and pointers mean what they mean on the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from tilec.ir import dtypes, stmt
from tilec.ir.buffer import Buffer
from tilec.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var

_PLAIN = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bool": np.bool_,
    "handle": np.uint64,
    **{f"{u}int{b}": getattr(np, f"{u}int{b}") for u in ("", "u") for b in (8, 16, 32, 64)},
}
_TORCH = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}


def decode(raw: np.ndarray, dtype: str) -> np.ndarray:
    """Bytes (last axis: those of one element) to values; types numpy lacks become float32."""
    raw = np.ascontiguousarray(raw)
    if dtype in _PLAIN:
        return raw.view(_PLAIN[dtype])[..., 0]
    bits = torch.from_numpy(raw.view({1: np.uint8, 2: np.int16}[raw.shape[-1]])[..., 0].copy())
    return bits.view(_TORCH[dtype]).to(torch.float32).numpy()


def encode(values: np.ndarray, dtype: str) -> np.ndarray:
    """Values to bytes, rounding to nearest even."""
    if dtype in _PLAIN:
        out = np.ascontiguousarray(np.asarray(values).astype(_PLAIN[dtype]))
    else:
        size = dtypes.bits(dtype) // 8
        source = torch.from_numpy(np.array(values, dtype=np.float32))
        out = source.to(_TORCH[dtype]).view({1: torch.uint8, 2: torch.int16}[size]).numpy()
    return out[..., None].view(np.uint8)


@dataclass
class Pointer:
    """A byte position in some memory. ``address`` is meaningful for shared memory."""

    data: np.ndarray  # one-dimensional uint8
    offset: int
    address: int = 0

    def read(self, count: int) -> np.ndarray:
        assert self.offset >= 0 and self.offset + count <= self.data.size, "read outside of the buffer"
        return self.data[self.offset : self.offset + count].copy()

    def write(self, raw: np.ndarray) -> None:
        assert self.offset >= 0 and self.offset + raw.size <= self.data.size, "write outside of the buffer"
        self.data[self.offset : self.offset + raw.size] = raw

    def values(self, dtype: str, count: int) -> np.ndarray:
        return decode(self.read(count * dtypes.bits(dtype) // 8).reshape(count, -1), dtype)

    def put(self, dtype: str, values: np.ndarray) -> None:
        self.write(encode(np.asarray(values), dtype).reshape(-1))


@dataclass
class Machine:
    """``functions``: name -> callable(machine, lanes, args); lanes are thread numbers, args one list each."""

    threads: int
    functions: dict[str, Any]
    shared: np.ndarray = field(default_factory=lambda: np.full(228 * 1024, 0xA5, np.uint8))
    memory: dict[Buffer, np.ndarray] = field(default_factory=dict)
    base: dict[Buffer, int] = field(default_factory=dict)
    next_address: int = 1024
    env: dict[Var, np.ndarray] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    # Memory

    def place(self, buffer: Buffer, alignment: int = 1024) -> None:
        """Give a buffer memory: shared ones in the pool, local ones per thread, others apart."""
        if buffer in self.memory or buffer.scope == "shared.tmem":
            return
        size = buffer.size_bytes()
        assert size is not None
        if buffer.scope.startswith("shared"):
            start = -(-self.next_address // alignment) * alignment
            self.next_address = start + size
            self.memory[buffer], self.base[buffer] = self.shared[None, start : start + size], start
        else:
            rows = self.threads if buffer.scope.startswith("local") else 1
            self.memory[buffer] = np.full((rows, size), 0xA5, np.uint8)

    def write(self, buffer: Buffer, values: Any) -> None:
        self.place(buffer)
        self.memory[buffer][0] = encode(np.asarray(values), buffer.dtype).reshape(-1)

    def _bytes_at(self, buffer: Buffer, indices: tuple[Expr, ...], mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.place(buffer)
        shape = buffer.static_shape()
        assert shape is not None and len(shape) == len(indices), (buffer, indices)
        flat = np.zeros(self.threads, np.int64)
        for extent, index in zip(shape, indices):
            value = self._spread(self.value(index, mask)).astype(np.int64)
            bad = mask & ((value < 0) | (value >= extent))
            assert not bad.any(), f"{buffer}: index {value[bad][0]} outside of {extent}"
            flat = flat * extent + value
        flat = np.where(mask, flat, 0)
        rows = np.arange(self.threads) if self.memory[buffer].shape[0] > 1 else np.zeros(self.threads, np.int64)
        return rows, flat * (dtypes.bits(buffer.dtype) // 8)

    def _spread(self, value: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(value), (self.threads,))

    # Expressions

    def value(self, e: Expr, mask: np.ndarray) -> Any:
        if isinstance(e, Const):
            return np.asarray(e.value).astype(_PLAIN.get(e.dtype, np.float32))
        if isinstance(e, Var):
            return self.env[e]
        if isinstance(e, Load):
            rows, offset = self._bytes_at(e.buffer, e.indices, mask)
            size = dtypes.bits(e.dtype) // 8
            return decode(self.memory[e.buffer][rows[:, None], offset[:, None] + np.arange(size)], e.dtype)
        if isinstance(e, Select):
            cond = self._spread(self.value(e.cond, mask)).astype(bool)
            return np.where(
                cond, self._spread(self.value(e.then, mask & cond)), self._spread(self.value(e.other, mask & ~cond))
            )
        if isinstance(e, Cast):
            return self._cast(self.value(e.a, mask), e.dtype)
        if isinstance(e, Binary):
            return self._binary(e, self.value(e.a, mask), self.value(e.b, mask))
        if isinstance(e, Unary):
            a = self.value(e.a, mask)
            return {"neg": np.negative, "not": np.logical_not, "bitnot": np.invert}[e.op](a)
        assert isinstance(e, Call), e
        return self._call(e, mask)

    @staticmethod
    def _cast(value: Any, dtype: str) -> Any:
        value = np.asarray(value)
        return decode(encode(value, dtype), dtype) if dtype not in _PLAIN else value.astype(_PLAIN[dtype])

    @staticmethod
    def _binary(e: Binary, a: Any, b: Any) -> Any:
        functions = {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": np.divide,
            "floordiv": np.floor_divide,
            "floormod": np.mod,
            "min": np.minimum,
            "max": np.maximum,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
            "eq": np.equal,
            "ne": np.not_equal,
            "and": np.logical_and,
            "or": np.logical_or,
            "bitand": np.bitwise_and,
            "bitor": np.bitwise_or,
            "bitxor": np.bitwise_xor,
            "shl": np.left_shift,
            "shr": np.right_shift,
        }
        with np.errstate(over="ignore"):
            return functions[e.op](a, b)

    def _call(self, e: Call, mask: np.ndarray) -> Any:
        if e.op == "address_of":
            load = e.args[0]
            rows, offset = self._bytes_at(load.buffer, load.indices, mask)
            data, base = self.memory[load.buffer], self.base.get(load.buffer, 0)
            pointers = np.empty(self.threads, object)
            for t in range(self.threads):
                pointers[t] = Pointer(data[rows[t]], int(offset[t]), base + int(offset[t]))
            return pointers
        assert e.op == "device_function" and e.attrs, e.op
        args = [self._spread(self.value(a, mask)) for a in e.args]
        result = np.zeros(self.threads, _PLAIN.get(e.dtype, np.int64))
        for warp in range(0, self.threads, 32):
            lanes = [t for t in range(warp, min(warp + 32, self.threads)) if mask[t]]
            if not lanes:
                continue
            values = self.functions[e.attrs["name"]](self, lanes, [[a[t] for a in args] for t in lanes])
            if values is not None:
                result[lanes] = values
        return result

    # Statements

    def run(self, body: stmt.Body, mask: np.ndarray | None = None) -> None:
        mask = np.ones(self.threads, bool) if mask is None else mask
        for s in body:
            self._statement(s, mask)

    def _statement(self, s: stmt.Stmt, mask: np.ndarray) -> None:
        if isinstance(s, stmt.Alloc):
            self.place(s.buffer)
        elif isinstance(s, stmt.Let):
            self.env[s.var] = self.value(s.value, mask)
        elif isinstance(s, stmt.Store):
            value = encode(self._spread(self.value(s.value, mask)), s.buffer.dtype)
            rows, offset = self._bytes_at(s.buffer, s.indices, mask)
            for t in np.flatnonzero(mask):
                self.memory[s.buffer][rows[t], offset[t] : offset[t] + value.shape[-1]] = value[t]
        elif isinstance(s, stmt.Evaluate):
            self.value(s.value, mask)
        elif isinstance(s, stmt.If):
            cond = self._spread(self.value(s.cond, mask)).astype(bool)
            for branch, active in ((s.then, mask & cond), (s.other, mask & ~cond)):
                if active.any():
                    self.run(branch, active)
        elif isinstance(s, stmt.For):
            start, extent = (int(self._uniform(e, mask)) for e in (s.start, s.extent))
            for i in range(extent):
                self.env[s.var] = np.int32(start + i * s.step)
                self.run(s.body, mask)
        elif isinstance(s, stmt.TileOp):
            assert s.op == "sync_threads" and mask.all(), f"{s.op} while threads diverge"
        else:
            raise AssertionError(f"no thread-program statement: {type(s).__name__}")

    def _uniform(self, e: Expr, mask: np.ndarray) -> Any:
        values = np.unique(self._spread(self.value(e, mask))[mask])
        assert values.size == 1, "loop bounds differ between threads"
        return values[0]
