"""Executes a specialised kernel's synchronisation: one lane of every warp, with mbarriers, bulk copies and asynchronous matrix operations.

Numbers of tiles are not computed; who may touch which stage when is. Faults: a deadlock, a bulk copy into a stage that a matrix operation
or a bulk store still reads, an operation on a stage that has not arrived, a kernel that ends with copies under way, and barriers
that some threads of a group do not reach. Copies arrive at random moments and warps run in random order.
"""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tilec.ir.buffer import Buffer
from tilec.ir.build import const_int
from tilec.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Store, While


class Fault(AssertionError):
    """The kernel hangs, or something is touched that is not there or still in use."""


@dataclass
class Barrier:
    count: int
    phase: int = 0
    arrived: int = 0
    bytes: int = 0  # still to come in this phase

    def settle(self) -> None:
        if self.arrived == self.count and self.bytes == 0:
            self.phase, self.arrived = self.phase ^ 1, 0


@dataclass
class Tile:
    """A place in shared memory: a buffer and a stage of it."""

    fills: int = 0  # copies on their way
    arrived: bool = False
    readers: dict[Any, int] = field(default_factory=dict)  # who still reads it, and how often


class Block:
    def __init__(self, launch: Launch, number: int, blocks: int, names: dict[Var, Any], tensors: dict[Buffer, Any], seed: int) -> None:
        self.launch, self.number, self.blocks, self.tensors = launch, number, blocks, tensors
        self.random = random.Random(seed)
        self.barriers: dict[tuple[Buffer, int], Barrier] = {}
        self.tiles: dict[tuple[Buffer, int], Tile] = {}
        self.landing: list[tuple[tuple[Buffer, int], tuple[Buffer, int], int]] = []
        self.named: dict[int, set[int]] = {}
        self.threads = const_int(launch.threads[0]) or 0
        self.warps = [Warp(self, w, dict(names)) for w in range(self.threads // 32)]

    def run(self) -> None:
        alive = {w.number: w.go(self.launch.body) for w in self.warps}
        waiting: dict[int, Any] = {}
        idle = 0
        while alive:
            ready = [w for w in alive if w not in waiting or waiting[w]()]
            if self.landing and (not ready or self.random.random() < 0.3):
                self.land()
                continue
            if not ready:
                raise Fault(f"warps {sorted(waiting)} wait for ever")
            w = self.random.choice(ready)
            waiting.pop(w, None)
            try:
                waiting[w] = next(alive[w])
            except StopIteration:
                del alive[w]
                waiting.pop(w, None)
            idle += 1
            if idle > 2_000_000:
                raise Fault("the kernel does not end")
        if self.landing:
            raise Fault("the kernel ends while copies are under way")
        for key, b in self.barriers.items():
            if b.arrived or b.bytes:
                raise Fault(f"{key[0].name}[{key[1]}] ends in the middle of a phase")

    def land(self) -> None:
        tile, barrier, size = self.landing.pop(self.random.randrange(len(self.landing)))
        place = self.tiles[tile]
        place.fills -= 1
        place.arrived = place.fills == 0
        b = self.barriers[barrier]
        b.bytes -= size
        b.settle()


class Warp:
    """Lane 0 of a warp."""

    def __init__(self, block: Block, number: int, names: dict[Var, Any]) -> None:
        self.block, self.number, self.names = block, number, names
        self.memory: dict[Buffer, Any] = {}
        self.groups: list[list[tuple[Buffer, int]]] = [[]]  # matrix operations: tiles read, by committed group; the last is open
        self.stores: list[tuple[Buffer, int]] = []
        for v in block.launch.attrs["thread_vars"]:
            names[v] = 0
        names[block.launch.attrs["thread_vars"][0]] = number * 32

    def go(self, body: Body) -> Iterator[Any]:
        for s in body:
            if isinstance(s, Let):
                self.names[s.var] = self.value(s.value)
            elif isinstance(s, Store):
                if s.buffer.scope == "local.var":
                    self.memory[s.buffer] = self.value(s.value)
            elif isinstance(s, If):
                cond = self.value(s.cond)
                if cond is None:
                    raise AssertionError(f"a condition that the simulation cannot know: {s.cond}")
                yield from self.go(s.then if cond else s.other)
            elif isinstance(s, For):
                yield from self.loop(s)
            elif isinstance(s, Evaluate):
                yield from self.call(s.value)
            elif isinstance(s, (While, Jump)):
                raise AssertionError("not simulated")
            else:
                assert isinstance(s, Alloc), s

    def loop(self, s: For) -> Iterator[Any]:
        if s.kind in ("unroll", "vectorized") and not _synchronises(s.body):
            return
        start, extent = self.value(s.start), self.value(s.extent)
        if extent is None and not _synchronises(s.body):
            return
        for k in range(extent):
            self.names[s.var] = start + k * s.step
            yield from self.go(s.body)

    # -- values; None is one that does not matter ------------------------------------------------------------------------------
    def value(self, e: Expr) -> Any:
        if isinstance(e, Const):
            return e.value
        if isinstance(e, Var):
            return self.names.get(e)
        if isinstance(e, Cast):
            return self.value(e.a)
        if isinstance(e, Load):
            if e.buffer in self.memory:
                return self.memory[e.buffer]
            indices = [self.value(i) for i in e.indices]
            return self.block.tensors[e.buffer][tuple(indices)] if e.buffer in self.block.tensors and None not in indices else None
        if isinstance(e, Select):
            cond = self.value(e.cond)
            return None if cond is None else self.value(e.then if cond else e.other)
        if isinstance(e, Unary):
            a = self.value(e.a)
            return None if a is None else {"neg": lambda: -a, "not": lambda: not a, "bitnot": lambda: ~a}[e.op]()
        if isinstance(e, Binary):
            a, b = self.value(e.a), self.value(e.b)
            if isinstance(a, tuple) or isinstance(b, tuple):
                return a if isinstance(a, tuple) else b  # a descriptor, moved within its tile
            return None if a is None or b is None or e.op not in _OPERATIONS else _OPERATIONS[e.op](a, b)
        assert isinstance(e, Call)
        if e.op == "address_of":
            load = e.args[0]
            stage = self.value(load.indices[0]) if load.buffer.attrs.get("ring") or "barrier" in load.buffer.scope else 0
            return (load.buffer, stage)
        if e.op != "device_function":
            return None
        name = (e.attrs or {})["name"]
        if name == "tile_rounds":
            return (self.value(e.args[0]) - self.block.number + self.block.blocks - 1) // self.block.blocks
        if name == "tile_number":
            return self.block.number + self.value(e.args[0]) * self.block.blocks
        return self.value(e.args[0]) if name in ("tile_wgmma_descriptor", "tile_uniform") else None

    # -- instructions -----------------------------------------------------------------------------------------------------------
    def call(self, e: Expr) -> Iterator[Any]:
        if not isinstance(e, Call) or e.op != "device_function":
            return
        name = (e.attrs or {})["name"]
        args = [self.value(a) for a in e.args]
        block = self.block
        if name == "tile_mbarrier_init":
            block.barriers[args[0]] = Barrier(int(args[1]))
        elif name == "tile_sync_threads":
            yield from self.together(0, block.threads)
        elif name == "tile_sync_named":
            yield from self.together(int(args[0]), int(args[1]))
        elif name == "tile_mbarrier_wait":
            barrier, parity = block.barriers[args[0]], int(args[1])
            yield lambda: barrier.phase != parity
        elif name == "tile_mbarrier_arrive_expect":
            barrier = block.barriers[args[0]]
            barrier.arrived, barrier.bytes = barrier.arrived + 1, barrier.bytes + int(args[1])
            self.check_arrivals(args[0])
        elif name.startswith("tile_tma_load"):
            self.fill(args[0], args[2], e)
        elif name == "tile_mbarrier_release":
            barrier = block.barriers[args[0]]
            barrier.arrived += 1
            self.check_arrivals(args[0])
            barrier.settle()
        elif name.startswith(("tile_wgmma_m64", "tile_wgmma_sp_m64")):
            self.multiply([a for a in args[1:] if isinstance(a, tuple) and a[0].scope.startswith("shared")])
        elif name == "tile_wgmma_commit":
            self.groups.append([])
        elif name.startswith("tile_wgmma_wait"):
            yield lambda: True  # others may run before it is over
            self.finish(int(name.rsplit("_", 1)[1]))
        elif name.startswith("tile_tma_store_") and name[-1] == "d":
            self.read(args[0], "store")
            self.stores.append(args[0])
        elif name == "tile_stmatrix_x4":
            if self.tile(args[0]).readers:
                raise Fault(f"{args[0][0].name}[{args[0][1]}] is written while bulk copies read it")
        elif name.startswith("tile_tma_store_wait"):
            done = len(self.stores) - int(name.removeprefix("tile_tma_store_wait").strip("_") or 0)
            for tile in self.stores[: max(done, 0)]:
                self.unread(tile, "store")
            self.stores = self.stores[max(done, 0):]

    def together(self, barrier: int, threads: int) -> Iterator[Any]:
        """All warps that take part arrive before one goes on."""
        here = self.block.named.setdefault(barrier, set())
        if self.number in here:
            raise Fault(f"warp {self.number} comes to barrier {barrier} twice")
        here.add(self.number)
        if len(here) * 32 == threads:
            self.block.named[barrier] = set()
        yield lambda: self.block.named.get(barrier) is not here

    def check_arrivals(self, key: tuple[Buffer, int]) -> None:
        b = self.block.barriers[key]
        if b.arrived > b.count:
            raise Fault(f"{key[0].name}[{key[1]}]: more arrivals than its phase has")

    def tile(self, key: tuple[Buffer, int]) -> Tile:
        return self.block.tiles.setdefault(key, Tile())

    def fill(self, key: tuple[Buffer, int], barrier: tuple[Buffer, int], e: Call) -> None:
        place = self.tile(key)
        if place.readers:
            raise Fault(f"{key[0].name}[{key[1]}] is overwritten while {sorted(map(str, place.readers))} read it")
        place.fills += 1
        place.arrived = False
        box = e.args[1].attrs["map"]  # type: ignore[attr-defined]
        size = box.buffer_bytes if hasattr(box, "buffer_bytes") else _box_bytes(box)
        self.block.landing.append((key, barrier, size))

    def multiply(self, operands: list[tuple[Buffer, int]]) -> None:
        for key in operands:
            self.read(key, "multiply")
            self.groups[-1].append(key)

    def read(self, key: tuple[Buffer, int], how: str) -> None:
        place = self.tile(key)
        if key[0].attrs.get("ring") and not key[0].attrs.get("staging") and not place.arrived:
            raise Fault(f"{key[0].name}[{key[1]}] is read by warp {self.number} before it has arrived")
        place.readers[(how, self.number)] = place.readers.get((how, self.number), 0) + 1

    def unread(self, key: tuple[Buffer, int], how: str) -> None:
        place = self.tile(key)
        place.readers[(how, self.number)] -= 1
        if not place.readers[(how, self.number)]:
            del place.readers[(how, self.number)]

    def finish(self, pending: int) -> None:
        committed = self.groups[:-1]
        done = committed[: max(0, len(committed) - pending)]
        for group in done:
            for key in group:
                self.unread(key, "multiply")
        self.groups = self.groups[len(done):]


def _box_bytes(box: Any) -> int:
    from tilec.ir import dtypes

    total = dtypes.bits(box.buffer.dtype) // 8
    for e in box.box:
        total *= e
    return total


def _synchronises(body: Body) -> bool:
    from tilec.ir.expr import walk as walk_expr
    from tilec.ir.stmt import expressions, walk

    return any(isinstance(x, Call) and x.op == "device_function" and (x.attrs or {})["name"].startswith(("tile_mbarrier", "tile_sync", "tile_tma", "tile_wgmma", "tile_stmatrix"))
               for s in walk(body) for e in expressions(s) for x in walk_expr(e))


_OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
               "truncdiv": lambda a, b: int(a / b), "truncmod": lambda a, b: a - b * int(a / b), "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
               "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "min": min, "max": max,
               "and": lambda a, b: a and b, "or": lambda a, b: a or b, "bitxor": lambda a, b: a ^ b, "bitand": lambda a, b: a & b}


def simulate(program: TileProgram, blocks: int | None = None, limit: int = 2, seeds: int = 2, tensors: dict[str, Any] | None = None, **extents: int) -> None:
    """Run the first ``limit`` and the last block. ``blocks``: how many are resident where blocks stay; ``extents``: run-time sizes by name."""
    by_name = {p.name: p for p in program.params if isinstance(p, Buffer)}
    given = {by_name[n]: v for n, v in (tensors or {}).items()}
    for launch in program.launches():
        names: dict[Var, Any] = {e: extents[e.name] for p in by_name.values() for e in p.shape if isinstance(e, Var)}
        host = Warp.__new__(Warp)
        host.names, host.memory = names, {}
        grid = [int(host.value(e)) for e in launch.grid]
        total = 1
        for e in grid:
            total *= e
        count = min(blocks or -(-total // 3), total) if launch.attrs.get("persistent") else total
        chosen = sorted({*range(min(limit, count)), count - 1})
        for seed in range(seeds):
            for number in chosen:
                rest, place = number, dict(names)
                for var, extent in zip(launch.block_vars, grid):
                    place[var] = rest % extent
                    rest //= extent
                Block(launch, number, count, place, given, seed).run()
