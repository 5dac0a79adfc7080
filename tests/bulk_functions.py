"""What bulk tensor copies and mbarriers do, for programs executed thread by thread. Written from the PTX ISA, not from the lowering.

A copy lands at once: that it is not read before its barrier says so is the business of ``role_machine``. Swizzled boxes exchange 16-byte
pieces: address bits 4.. are XORed with bits 7.. (PTX ISA, "Swizzling modes").
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from matrix_machine import decode, encode
from matrix_semantics import round_tf32

FUNCTIONS = ("tile_mbarrier_init", "tile_mbarrier_expect_tx", "tile_mbarrier_arrive", "tile_mbarrier_arrive_expect", "tile_mbarrier_release", "tile_fence_mbarrier_init", "tile_fence_proxy_async",
             "tile_prefetch_map", "tile_tma_store_commit", "tile_tma_store_wait", "tile_tma_store_arrived", "tile_rounds", "tile_number", "tile_uniform", "tile_pdl_trigger",
             "tile_pdl_sync", "tile_cp_async_arrive", "tile_cp_async_arrive_noinc")
PREFIXES = ("tile_tma_load_", "tile_tma_store_", "tile_tma_reduce_", "tile_registers_", "tile_pack_")
_MASKS = {0: 0, 32: 1, 64: 3, 128: 7}


@dataclass
class Barrier:
    count: int
    phase: int = 0
    arrived: int = 0
    bytes: int = 0  # that are still to come in this phase

    def arrive(self) -> None:
        self.arrived += 1
        assert self.arrived <= self.count, "more arrivals than the phase has"
        self.complete(0)

    def complete(self, moved: int) -> None:
        self.bytes -= moved
        if self.arrived == self.count and self.bytes == 0:
            self.phase, self.arrived = self.phase ^ 1, 0


def _arrive(run: Any, place: int) -> None:
    """Of one thread; what came before the last arrival of a phase is ordered before what waits for it."""
    barrier = run.barriers[place]
    before = barrier.phase
    barrier.arrive()
    if barrier.phase != before:
        run.moment = (run.moment[0], run.moment[1] + 1)


def execute(run: Any, name: str, thread: int, args: list[Any]) -> Any:
    if name == "tile_mbarrier_init":
        run.barriers[args[0].offset] = Barrier(int(args[1]))
    elif name == "tile_mbarrier_arrive_expect":
        run.barriers[args[0].offset].bytes += int(args[1])
        run.barriers[args[0].offset].arrive()
    elif name == "tile_mbarrier_expect_tx":
        run.barriers[args[0].offset].bytes += int(args[1])
    elif name == "tile_mbarrier_release":
        if thread % 32 == 0:
            run.barriers[args[0].offset].arrive()
    elif name == "tile_mbarrier_arrive":
        _arrive(run, args[0].offset)
    elif name.startswith("tile_cp_async_arrive"):
        for group in run.groups.pop(thread, []):  # the copies arrive at once
            for target, data in group:
                target.write(data)
        if name.endswith("noinc"):
            _arrive(run, args[0].offset)
        else:
            assert run.barriers[args[0].offset].arrived < run.barriers[args[0].offset].count, "an arrival is announced in a phase that is over"
    elif name == "tile_rounds":
        return (args[0] - run.block + run.blocks - 1) // run.blocks
    elif name == "tile_number":
        return run.block + args[0] * run.blocks
    elif name == "tile_uniform":
        return args[0]
    elif name.startswith("tile_pack_"):
        dtype = {"f16": "float16", "bf16": "bfloat16"}[name.removeprefix("tile_pack_")]
        return int(encode(np.array(args, np.float32), dtype).reshape(-1).view(np.uint32)[0])
    elif re.fullmatch(r"tile_tma_load_\dd", name) or name == "tile_tma_load_pixels":
        _load(run, *args[:3], args[3:])
    elif re.fullmatch(r"tile_tma_store_\dd", name):
        _store(run, thread, *args[:2], args[2:])
    elif match := re.fullmatch(r"tile_tma_reduce_(\w+)_\dd", name):
        _reduce(run, thread, match[1], *args[:2], args[2:])
    return None


def store_matrices(run: Any, lanes: list[int], args: list[list[Any]]) -> None:
    """stmatrix.x4: lane 8 i + r gives the place of row r of matrix i; lane l holds elements 2 (l % 4) and the next of row l / 4."""
    assert len(lanes) == 32, "a .sync.aligned instruction needs all lanes of the warp"
    for i in range(4):
        for r in range(8):
            row = args[8 * i + r][0]
            assert row.address % 16 == 0, "stmatrix row is not aligned to 16 bytes"
            row.write(np.array([args[4 * r + c][1 + i] for c in range(4)], np.uint32).view(np.uint8))


@dataclass
class _Tensor:
    space: Any
    base: int
    size: int
    shape: list[int]
    strides: list[int]


def place_of(run: Any, tensor_map: Any) -> Any:
    """What a map describes: a parameter, or the same memory in another shape."""
    tensor = run.places[tensor_map.tensor]
    shape = [run.number(e) for e in tensor_map.buffer.shape]
    strides = [run.number(e) for e in tensor_map.strides()]
    return _Tensor(tensor.space, tensor.base, tensor.size, shape, strides)


def _elements(run: Any, tensor_map: Any, start: int, coordinates: list[int]):
    """(place in shared memory, place in the tensor or None if outside) of a box's elements, in pieces of 16 bytes."""
    place = place_of(run, tensor_map)
    size, box = place.size, tensor_map.box
    piece = 16 // size
    index = list(reversed(coordinates))
    row_bytes = box[-1] * size
    assert start % 128 == 0 and row_bytes % 16 == 0, "the box is not aligned"
    assert tensor_map.swizzle in (0, row_bytes) and start % max(128, 8 * tensor_map.swizzle) == 0, "the swizzle does not fit the box"
    for number, outer in enumerate(np.ndindex(*box[:-1])):
        where = [i + o for i, o in zip(index, outer)]
        for c in range(0, box[-1], piece):
            address = start + number * row_bytes + c * size
            address ^= ((address >> 7) & _MASKS[tensor_map.swizzle]) << 4
            lanes = []
            for k in range(piece):
                full = [*where, index[-1] + c + k]
                inside = all(0 <= i < e for i, e in zip(full, place.shape))
                lanes.append(place.base + sum(i * s for i, s in zip(full, place.strides)) * size if inside else None)
            yield address, lanes


def _pixels(run: Any, tensor_map: Any, start: int, at: list[int]):
    """In im2col mode: the same of pixels of the box [lower, extent + upper) in steps of the stride, from one on, row after row and image after image."""
    place, window = place_of(run, tensor_map), tensor_map.window
    (images, height, width, channels), (pixels, wide), size = place.shape, tensor_map.box, place.size
    c, x, y, n, right, down = at
    piece, row_bytes = 16 // size, wide * size
    assert start % max(128, 8 * tensor_map.swizzle) == 0 and row_bytes % 16 == 0 and tensor_map.swizzle in (0, row_bytes)
    assert 0 <= right < 256 and 0 <= down < 256
    xs, ys = (range(window.lower, extent + window.upper, window.stride) for extent in (width, height))
    assert x in xs and y in ys, "the first pixel is none of the box"
    number = (n * len(ys) + ys.index(y)) * len(xs) + xs.index(x)
    for k in range(pixels):
        image, rest = divmod(number + k, len(xs) * len(ys))
        row, column = ys[rest // len(xs)] + down, xs[rest % len(xs)] + right
        for offset in range(0, wide, piece):
            address = start + k * row_bytes + offset * size
            address ^= ((address >> 7) & _MASKS[tensor_map.swizzle]) << 4
            full = [[image, row, column, c + offset + lane] for lane in range(piece)]
            yield address, [place.base + sum(i * s for i, s in zip(f, place.strides)) * size
                            if all(0 <= i < e for i, e in zip(f, (images, height, width, channels))) else None for f in full]


def _load(run: Any, shared: Any, tensor_map: Any, barrier: Any, coordinates: list[int]) -> None:
    place, space = place_of(run, tensor_map), shared.place.space
    moved = 0
    for address, lanes in (_elements if tensor_map.window is None else _pixels)(run, tensor_map, shared.offset, coordinates):
        for k, source in enumerate(lanes):
            at = address + k * place.size
            space.data[at:at + place.size] = 0 if source is None else place.space.data[source:source + place.size]
            if tensor_map.combined == "tfloat32":
                space.data[at:at + 4] = round_tf32(space.data[at:at + 4].view(np.float32)).view(np.uint8)
            for b in range(at, at + place.size):  # ordered by the barrier, not by moments
                space.known[b], space.writer[b], space.reader[b] = 1, None, None
            moved += place.size
    assert run.barriers[barrier.offset].bytes >= moved, "more bytes than were expected"
    run.barriers[barrier.offset].complete(moved)


def _store(run: Any, thread: int, shared: Any, tensor_map: Any, coordinates: list[int]) -> None:
    place, space = place_of(run, tensor_map), shared.place.space
    for address, lanes in _elements(run, tensor_map, shared.offset, coordinates):
        space.read(address, 16, thread, run.moment, " (bulk store)")
        for k, target in enumerate(lanes):
            if target is not None:
                place.space.write(target, place.size, thread, run.moment, " (bulk store)")
                at = address + k * place.size
                place.space.data[target:target + place.size] = space.data[at:at + place.size]


_COMBINED = {"add": lambda old, new: old + new, "max": np.maximum, "min": np.minimum}


def _reduce(run: Any, thread: int, kind: str, shared: Any, tensor_map: Any, coordinates: list[int]) -> None:
    place, space, dtype = place_of(run, tensor_map), shared.place.space, tensor_map.combined
    assert dtype, "values are combined by a map that only tells bits"
    for address, lanes in _elements(run, tensor_map, shared.offset, coordinates):
        space.read(address, 16, thread, run.moment, " (bulk reduction)")
        for k, target in enumerate(lanes):
            if target is not None:
                at = address + k * place.size
                old, new = (decode(np.frombuffer(bytes(s.data[i:i + place.size]), np.uint8), dtype) for s, i in ((place.space, target), (space, at)))
                place.space.data[target:target + place.size] = np.frombuffer(encode(_COMBINED[kind](old, new), dtype).tobytes(), np.uint8)
