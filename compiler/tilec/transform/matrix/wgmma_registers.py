"""Registers that one wgmma needs, and that a thread has as its kernel starts.

An instruction's accumulators are registers all at once. ptxas 13.0 refuses a kernel (C7602) whose threads are launched with fewer than those and some 26
more (30 with A in registers), whatever setmaxnreg gives them afterwards.
"""
from __future__ import annotations

from ...ir import dtypes

FILE = 65536  # 32-bit registers of a multiprocessor
GROUP = 128  # threads of a warpgroup
_ROWS = 64  # of one instruction
_BESIDE = 30


def at_start(threads: int, blocks: int = 1) -> int:
    """Registers of a thread, ``blocks`` of which run on a multiprocessor, each with a warpgroup more that may copy."""
    return FILE // ((threads + GROUP) * blocks) // 8 * 8


def needed(width: int, accumulator: str) -> int:
    """By an instruction of ``width`` columns that adds to a dtype."""
    return _ROWS * width * dtypes.bits(accumulator) // 32 // GROUP + _BESIDE


def widest(threads: int, accumulator: str) -> int:
    """Columns of an instruction for which the registers of so many threads suffice."""
    return (at_start(threads) - _BESIDE) * GROUP * 32 // (_ROWS * dtypes.bits(accumulator)) // 8 * 8
