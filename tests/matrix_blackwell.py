"""Semantics of mbarriers, fences and tcgen05, from the PTX ISA; registered in ``matrix_semantics.FUNCTIONS``.

Hazards are errors: a multiplication of shared data not fenced for the asynchronous proxy and synchronised, a read of an
accumulator before its barrier was waited for, a wait that never ends, tensor memory used outside of its allocation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matrix_machine import Machine, decode
from matrix_semantics import FUNCTIONS


@dataclass
class Barrier:
    count: int
    pending: int
    transactions: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending == 0 and self.transactions == 0:
            self.phase ^= 1
            self.pending = self.count


@dataclass
class Blackwell:
    """``first``: the column the allocator hands out: not 0, so that forgetting it shows."""

    barriers: dict[int, Barrier] = field(default_factory=dict)
    memory: np.ndarray = field(default_factory=lambda: np.full((128, 512), 0xDEADBEEF, np.uint32))
    columns: range | None = None
    unfenced: set[int] = field(default_factory=set)  # threads that wrote shared memory since their last fence
    unsynchronised: set[int] = field(default_factory=set)  # threads that fenced since the last block barrier
    running: bool = False  # a multiplication was issued and not committed
    committed: set[int] = field(default_factory=set)  # barriers that must be waited for
    waited: dict[int, set[int]] = field(default_factory=dict)

    def check_columns(self, address: int, count: int) -> tuple[int, int]:
        lane, column = address >> 16, address & 0xFFFF
        assert self.columns is not None, "tensor memory is not allocated"
        assert column in self.columns and column + count - 1 in self.columns, "outside of the allocated columns"
        return lane, column


def chip(machine: Machine) -> Blackwell:
    if "blackwell" not in machine.state:
        machine.state["blackwell"] = Blackwell()
    return machine.state["blackwell"]


def semantics(name: str):
    def register(fn):
        FUNCTIONS[name] = fn
        return fn

    return register


@semantics("tile_sync_threads")
@semantics("tile_sync_named")
def _sync(machine: Machine, lanes: list[int], args: Any) -> None:
    assert len(lanes) == min(32, machine.threads - lanes[0]), "block barrier while the warp diverges"
    chip(machine).unsynchronised -= set(lanes)


@semantics("tile_fence_proxy_async")
def _fence_proxy(machine: Machine, lanes: list[int], args: Any) -> None:
    state = chip(machine)
    state.unfenced -= set(lanes)
    state.unsynchronised |= set(lanes)


for _name in ("tile_tcgen05_fence_before_sync", "tile_tcgen05_fence_after_sync", "tile_fence_mbarrier_init", "tile_sync_warp"):
    FUNCTIONS[_name] = lambda machine, lanes, args: None


@semantics("tile_mbarrier_init")
def _init(machine: Machine, lanes: list[int], args: Any) -> None:
    assert len(lanes) == 1, "a barrier is initialised by one thread"
    pointer, count = args[0]
    assert pointer.address % 8 == 0 and count > 0
    chip(machine).barriers[pointer.address] = Barrier(int(count), int(count))


@semantics("tile_mbarrier_arrive")
def _arrive(machine: Machine, lanes: list[int], args: Any) -> None:
    for (pointer,) in args:
        barrier = chip(machine).barriers[pointer.address]
        assert barrier.pending > 0
        barrier.pending -= 1
        barrier.settle()


@semantics("tile_mbarrier_expect_tx")
def _expect(machine: Machine, lanes: list[int], args: Any) -> None:
    for pointer, count in args:
        chip(machine).barriers[pointer.address].transactions += int(count)


@semantics("tile_mbarrier_wait")
def _wait(machine: Machine, lanes: list[int], args: Any) -> None:
    state = chip(machine)
    for thread, (pointer, parity) in zip(lanes, args):
        assert parity in (0, 1)
        assert state.barriers[pointer.address].phase != parity, f"thread {thread} waits for ever"
        waiters = state.waited.setdefault(pointer.address, set())
        waiters.add(thread)
        if len(waiters) == machine.threads:
            state.committed.discard(pointer.address)
            waiters.clear()


FUNCTIONS["tile_mbarrier_wait_by_test"] = FUNCTIONS["tile_mbarrier_wait"]
# PTX ISA, cp.async.mbarrier.arrive: an arrival once this thread's copies are done; here they are done at once.
FUNCTIONS["tile_cp_async_arrive_noinc"] = FUNCTIONS["tile_mbarrier_arrive"]


@semantics("tile_cp_async_arrive")
def _arrive_later(machine: Machine, lanes: list[int], args: Any) -> None:
    """An arrival more is due and happens: nothing is left of it but that the phase was not over."""
    for (pointer,) in args:
        assert chip(machine).barriers[pointer.address].pending > 0


@semantics("tile_tcgen05_alloc")
def _alloc(machine: Machine, lanes: list[int], args: Any) -> None:
    assert len(lanes) == 32, "tcgen05.alloc is executed by a whole warp"
    slot, columns = args[0]
    columns = int(columns)
    assert 32 <= columns <= 512 and columns & (columns - 1) == 0
    state = chip(machine)
    assert state.columns is None
    state.columns = range(512 - columns, 512)
    slot.put("uint32", np.array([512 - columns]))


@semantics("tile_tcgen05_dealloc")
def _dealloc(machine: Machine, lanes: list[int], args: Any) -> None:
    state = chip(machine)
    address, columns = (int(a) for a in args[0])
    assert len(lanes) == 32 and state.columns == range(address, address + columns), "dealloc of what was not allocated"
    assert not state.running and not state.committed, "dealloc while a multiplication may be running"
    state.columns = None


@semantics("tile_tcgen05_commit")
def _commit(machine: Machine, lanes: list[int], args: Any) -> None:
    state = chip(machine)
    for (pointer,) in args:
        barrier = state.barriers[pointer.address]
        assert barrier.pending > 0
        barrier.pending -= 1
        barrier.settle()
        state.committed.add(pointer.address)
        state.waited.pop(pointer.address, None)
        state.running = False


def _move(columns: int, half: bool, reads: bool):
    def run(machine: Machine, lanes: list[int], args: Any) -> None:
        state = chip(machine)
        assert len(lanes) == 32 and not state.running and not state.committed, "accumulator touched before the wait"
        warp = lanes[0] // 32
        assert len({int(a[1]) for a in args}) == 1, "the address must be the same in the whole warp"
        lane0, column = state.check_columns(int(args[0][1]), columns)
        assert lane0 == 32 * (warp % 4), "a warp reaches only its quarter of the lanes"
        for lane, (registers, _) in enumerate(args):
            row = state.memory[lane0 + (lane & 15 if half else lane)]
            if reads:
                registers.write(row[column : column + columns].view(np.uint8).copy())
            else:
                row[column : column + columns] = registers.read(4 * columns).view(np.uint32)

    return run


for _n in (1, 2, 4, 8, 16, 32):
    FUNCTIONS[f"tile_tcgen05_ld_x{_n}"] = _move(_n, False, True)
    FUNCTIONS[f"tile_tcgen05_ld_half_x{_n}"] = _move(_n, True, True)
    FUNCTIONS[f"tile_tcgen05_st_x{_n}"] = _move(_n, False, False)


@semantics("tile_tcgen05_descriptor")
def _descriptor(machine: Machine, lanes: list[int], args: Any) -> list[int]:
    """Packs the fields as the device function's text does; the multiplication judges them when it decodes."""
    out = []
    for base, offset, leading, stride, layout in args:
        start = base.address + int(offset)
        assert start % 16 == 0 and leading % 16 == 0 and stride % 16 == 0
        assert max(start, int(leading), int(stride)) >> 4 < 1 << 14
        out.append(start >> 4 | int(leading) >> 4 << 16 | int(stride) >> 4 << 32 | 1 << 46 | int(layout) << 61)
    return out


# Matrix descriptor (PTX ISA, "Shared memory descriptor"): start address in bits 0..13, leading byte offset 16..29,
# stride byte offset 32..45, constant 0b001 in 46..48, base offset 49..51, swizzle 61..63.

_WIDTH = {0: 16, 6: 32, 4: 64, 2: 128}


@dataclass(frozen=True)
class MatrixDescriptor:
    start: int
    leading: int
    stride: int
    width: int

    @staticmethod
    def of(bits: int) -> MatrixDescriptor:
        assert bits >> 46 & 7 == 1 and bits >> 49 & 7 == 0 and bits >> 52 & 0x1FF == 0
        return MatrixDescriptor(
            (bits & 0x3FFF) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, _WIDTH[bits >> 61]
        )

    def address(self, mn: int, k: int, size: int, k_major: bool) -> int:
        """Of element (mn, k) by the canonical layouts, then the swizzle of the address bits."""
        T = 16 // size
        if k_major and self.width == 16:
            place = mn % 8 * 16 + mn // 8 * self.stride + k // T * self.leading + k % T * size
        elif k_major:
            assert k * size < 32
            place = mn % 8 * self.width + mn // 8 * self.stride + k * size
        elif self.width == 16:
            place = mn % T * size + mn // T * self.stride + k % 8 * 16 + k // 8 * self.leading
        else:
            span = self.width // size
            place = mn % span * size + mn // span * self.leading + k % 8 * self.width + k // 8 * self.stride
        address = self.start + place
        pieces = self.width // 16 - 1
        return address ^ ((address >> 7 & pieces) << 4)

    def read(self, machine: Machine, rows: int, k: int, dtype: str, size: int, k_major: bool) -> np.ndarray:
        raw = np.empty((rows, k, size), np.uint8)
        for mn in range(rows):
            for j in range(k):
                a = self.address(mn, j, size, k_major)
                raw[mn, j] = machine.shared[a : a + size]
        return decode(raw, dtype).astype(np.float64)


_FORMAT = {
    ("f16", 0): "float16",
    ("f16", 1): "bfloat16",
    ("f8f6f4", 0): "float8_e4m3fn",
    ("f8f6f4", 1): "float8_e5m2",
    ("i8", 0): "uint8",
    ("i8", 1): "int8",
}


def _multiplication(kind: str, a_in_tmem: bool):
    def run(machine: Machine, lanes: list[int], args: Any) -> None:
        state = chip(machine)
        assert len(lanes) == 1, "tcgen05.mma is issued by one thread"
        assert not state.unfenced, "shared data not visible to the asynchronous proxy"
        assert not state.unsynchronised, "no block barrier after the fence"
        d, a, b, instruction, accumulate = (int(x) for x in args[0])
        size, k = (2, 16) if kind == "f16" else (1, 32)
        accumulator = {1: "float32", 2: "int32"}[instruction >> 4 & 3]
        assert (accumulator == "int32") == (kind == "i8")
        a_type, b_type = _FORMAT[kind, instruction >> 7 & 7], _FORMAT[kind, instruction >> 10 & 7]
        a_k_major, b_k_major = not instruction >> 15 & 1, not instruction >> 16 & 1
        n, m = (instruction >> 17 & 0x3F) << 3, (instruction >> 24 & 0x1F) << 4
        assert instruction & 0b1110_0000_1000_0000_0110_0000_0100_1111 == 0, "reserved or unused bits"
        assert m in (64, 128) and n % (16 if m == 128 else 8) == 0 and 8 <= n <= 256
        lane, column = state.check_columns(d, n)
        assert lane == 0
        if a_in_tmem:
            _, a_column = state.check_columns(a, 8)
            assert m == 128 and a_k_major
            raw = np.ascontiguousarray(state.memory[:, a_column : a_column + 8]).view(np.uint8).reshape(128, k, size)
            A = decode(raw, a_type).astype(np.float64)
        else:
            A = MatrixDescriptor.of(a).read(machine, m, k, a_type, size, a_k_major)
        B = MatrixDescriptor.of(b).read(machine, n, k, b_type, size, b_k_major)
        # Data path layouts D (128 rows) and F (64 rows: 16 lanes of each quarter).
        lane_of = np.arange(128) if m == 128 else np.arange(64) // 16 * 32 + np.arange(64) % 16
        cells = state.memory[lane_of][:, column : column + n]
        old = cells.view(accumulator).astype(np.float64) if accumulate else 0
        state.memory[lane_of, column : column + n] = (old + A @ B.T).astype(accumulator).view(np.uint32)
        state.running = True

    return run


for _kind in ("f16", "f8f6f4", "i8"):
    FUNCTIONS[f"tile_tcgen05_mma_{_kind}"] = _multiplication(_kind, False)
    FUNCTIONS[f"tile_tcgen05_mma_{_kind}_ts"] = _multiplication(_kind, True)


def note_shared_write(machine: Machine, pointer_threads: set[int]) -> None:
    """The test's own stores into operand tiles go through the generic proxy."""
    chip(machine).unfenced |= pointer_threads
