"""What the device functions of the CUDA lowering do, written independently of it."""
from __future__ import annotations

import re
from typing import Any

import bulk_functions
import numpy as np
import wgmma_functions
from matrix_semantics import FUNCTIONS
from tilec.ir import dtypes


def WARP_WIDE(name: str):
    """Instructions that all lanes of a warp execute together."""
    if match := re.fullmatch(r"tile_shuffle_xor_(\w+)", name):
        return lambda run, lanes, args: [args[lanes.index((t // 32 * 32) + ((t % 32) ^ args[k][1]))][0] for k, t in enumerate(_whole(lanes))]
    if match := re.fullmatch(r"tile_shuffle_from_(\w+)", name):
        return lambda run, lanes, args: [args[a[1]][0] for a in args if _whole(lanes)]
    if match := re.fullmatch(r"tile_warp_scan_(add|max)_(\w+)", name):
        return lambda run, lanes, args: _scan(match[1], match[2], _whole(lanes), args)
    if name == "tile_sync_warp":
        return _meet
    if name == "tile_stmatrix_x4":
        return bulk_functions.store_matrices
    if name.startswith(("tile_wgmma_m64", "tile_wgmma_sp_m64")):
        return wgmma_functions.multiply(name)
    return FUNCTIONS[name]


def _meet(run: Any, lanes: list[int], args: list[list[Any]]) -> None:
    run.meetings[lanes[0] // 32] = run.meetings.get(lanes[0] // 32, 0) + 1


def _whole(lanes: list[int]) -> list[int]:
    assert len(lanes) == 32, "a shuffle needs all lanes of the warp"
    return lanes


def _scan(kind: str, dtype: str, lanes: list[int], args: list[list[Any]]) -> list[Any]:
    values = np.array([a[0] for a in args], dtype=np.int64 if dtypes.is_int(dtype) else np.float64)
    assert [a[1] for a in args] == list(range(32)), "lanes are passed in order"
    made = np.cumsum(values) if kind == "add" else np.maximum.accumulate(values)
    return [v.item() for v in made]


def is_warp_wide(name: str) -> bool:
    return name.startswith(("tile_shuffle", "tile_warp_scan", "tile_ldmatrix", "tile_stmatrix", "tile_mma_", "tile_wgmma_m64", "tile_wgmma_sp_m64")) or name == "tile_sync_warp"


def IMMEDIATE(run: Any, name: str, thread: int, args: list[Any]) -> Any:
    """Functions that one thread executes alone."""
    if name == "tile_wgmma_descriptor":
        return wgmma_functions.descriptor(args)
    if name.startswith(("tile_wgmma_fence", "tile_wgmma_commit", "tile_wgmma_wait")):
        return None
    if name in bulk_functions.FUNCTIONS or name.startswith(bulk_functions.PREFIXES):
        return bulk_functions.execute(run, name, thread, args)
    if match := re.fullmatch(r"tile_cp_async_(\d+)(_if)?", name):
        return _async_copy(run, thread, int(match[1]), args, bool(match[2]))
    if name == "tile_dp4a":
        x, y = (_bytes_at(p) for p in args[:2])
        return int(sum(int(a) * int(b) for a, b in zip(x, y))) + args[2]
    if name == "tile_cp_async_commit":
        run.groups.setdefault(thread, [[]]).append([])
        return None
    if match := re.fullmatch(r"tile_cp_async_wait_(\d+)", name):
        return _wait(run, thread, int(match[1]))
    if match := re.fullmatch(r"tile_atomic_add_(\w+?)x(\d)", name):
        return _add_neighbours(run, thread, int(match[2]), args)
    if match := re.fullmatch(r"tile_atomic_(\w+?)_(\w+)", name):
        return _atomic(run, thread, match[1], args)
    if name.startswith("tile_print_"):
        run.printed.append(args[0])
        return None
    if name.startswith("tile_assert_"):
        assert args[0], "a device assertion failed"
        return None
    raise KeyError(f"no semantics for the device function {name}")


def _bytes_at(pointer: Any) -> Any:
    """Four signed bytes."""
    return pointer.values("int8", 4) if hasattr(pointer, "array") else pointer.read(4).view(np.int8)


def _async_copy(run: Any, thread: int, size: int, args: list[Any], guarded: bool) -> None:
    target, source = args[0], args[1]
    assert target.offset % size == 0, "cp.async: the destination is not aligned"
    valid = not guarded or bool(args[2])
    if valid:
        assert source.offset % size == 0, "cp.async: the source is not aligned"
        assert source.offset >= 0 and source.offset + size <= source.data.size, "cp.async reads out of bounds"
        data = source.read(size)
    else:
        data = np.zeros(size, np.uint8)
    # The copy may land at once: whoever uses the destination now is in a race. Its bytes count as unknown until a wait.
    target.place.space.write(target.offset, size, thread, run.moment, " (cp.async)")
    for k in range(target.offset, target.offset + size):
        target.place.space.known[k] = 0
    run.groups.setdefault(thread, [[]])[-1].append((target, data))


def _wait(run: Any, thread: int, pending: int) -> None:
    groups = run.groups.setdefault(thread, [[]])
    done = groups[:max(0, len(groups) - 1 - pending)]
    for group in done:
        for target, data in group:
            target.write(data)
        group.clear()
    del groups[:len(done)]


def _add_neighbours(run: Any, thread: int, count: int, args: list[Any]) -> None:
    from types import SimpleNamespace

    place, at = args[0].place, args[0].offset
    assert at % (count * place.size) == 0, "a wide atomic addition that is not aligned"
    for k, value in enumerate(args[1].values(place.buffer.dtype, count)):
        _atomic(run, thread, "add", [SimpleNamespace(place=place, offset=at + k * place.size), value.item()])


def _atomic(run: Any, thread: int, kind: str, args: list[Any]) -> Any:
    place, at = args[0].place, args[0].offset
    assert at >= 0 and at + place.size <= place.space.data.size, "an atomic operation out of bounds"
    from matrix_machine import decode

    old = decode(place.space.data[at:at + place.size][None], place.buffer.dtype)[0].item()
    if kind == "load":
        return old
    value = args[1]
    new = {"add": lambda: old + value, "max": lambda: max(old, value), "min": lambda: min(old, value), "and": lambda: old & value,
           "or": lambda: old | value, "xor": lambda: old ^ value, "store": lambda: value}[kind]()
    for k in range(at, at + place.size):
        w = place.space.writer[k]
        if w is not None and w[1] == -2:
            place.space.writer[k] = None
    place.space.write(at, place.size, thread, run.moment, f" ({place.buffer.name}, atomic)", atomic=True)
    place.put(at, new)
    return old
