"""How near a kernel comes to what its GPU can do, and how many of a multiprocessor's threads it keeps.

The roofline of a kernel is the least time in which the GPU could move its tensors once and do the operations of its matrix products, at the
clocks that the driver tells. What tensor cores do in a clock stands in ``target/rates``.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..build.launch import Driver
from ..ir.program import TileProgram
from ..ir.stmt import TileOp
from ..target.chips import Target
from ..target.rates import rates
from .cost import GEMMS

_CLOCK, _MULTIPROCESSORS, _MEMORY_CLOCK, _BUS_WIDTH, _THREADS = 13, 16, 36, 37, 39  # CU_DEVICE_ATTRIBUTE_*
# Multiply-adds beside those of 16-bit operands; types that are not there have no rate here.
_SPEED = {16: 1.0, 32: 0.5, 8: 2.0, 4: 4.0}
_OTHERS = ("float64", "uint64", "int64", "int32", "uint32", "int16", "uint16", "bool")


def share(program: TileProgram, target: Target, driver: Driver, operations: float, moved: float, seconds: float) -> float | None:
    """Of the roofline, from 0 to 1; None where it is not known, or the kernel does less than it seems to (and would be above)."""
    clock, chips, memory_clock, width = driver.attributes(_CLOCK, _MULTIPROCESSORS, _MEMORY_CLOCK, _BUS_WIDTH)
    speed = fastest(program)
    if seconds <= 0 or not (clock and chips and memory_clock and width) or (operations and not speed):
        return None
    memory = memory_clock * 1e3 * 2 * width / 8
    least = max(moved / memory, operations / (2 * rates(target).tensor * speed * chips * clock * 1e3) if operations else 0.0)
    found = least / seconds
    return found if 0 < found <= 1 else None


def fastest(program: TileProgram) -> float:
    """How many multiply-adds the operands of the program's products allow, beside 16-bit ones; 0.0 if some have no rate."""
    types = {s.region(name).dtype for s in program.statements() if isinstance(s, TileOp) and s.op in GEMMS for name in ("A", "B")}
    return max((_speed(t) for t in types), default=0.0) if all(map(_speed, types)) else 0.0


def _speed(dtype: str) -> float:
    from ..ir import dtypes

    return 0.0 if dtype in _OTHERS else _SPEED.get(dtypes.bits(dtype), 0.0)


def occupancy(driver: Driver, loaded: Iterable[tuple[Any, Any]]) -> float | None:
    """The share of a multiprocessor's threads that the kernels' blocks take, the least of them. ``loaded``: kernels with their functions."""
    most = driver.attributes(_THREADS)[0]
    found = []
    for spec, function in loaded:
        threads = spec.block[0] * spec.block[1] * spec.block[2]
        blocks = driver.resident_blocks(function, threads, spec.shared_bytes)
        if not most or blocks is None:
            return None
        found.append(min(blocks * threads / most, 1.0))
    return min(found, default=None)
