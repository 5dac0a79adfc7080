"""Sharing the iterations of a box out over threads when no fragment decides: row-major, neighbours in vectors."""
from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from .layout import REGISTER, THREAD, Digit, FragmentLayout, Replica


def row_major_partition(extents: Sequence[int], threads: int, vector: int = 1) -> FragmentLayout:
    """Neighbouring threads take neighbouring vectors of ``vector`` elements of the last dimension."""
    digits: list[Digit] = []
    register_scale = thread_scale = 1
    left = threads
    for dim in reversed(range(len(extents))):
        stride, rest = 1, extents[dim]
        if dim == len(extents) - 1 and vector > 1 and rest % vector == 0:
            digits.append(Digit(dim, vector, 1, REGISTER, register_scale))
            register_scale *= vector
            stride, rest = vector, rest // vector
        share = _share(rest, left)
        if share > 1:
            digits.append(Digit(dim, share, stride, THREAD, thread_scale))
            thread_scale *= share
            left //= share
            stride, rest = stride * share, -(-rest // share)
        if rest > 1:
            digits.append(Digit(dim, rest, stride, REGISTER, register_scale))
            register_scale *= rest
    replicas = (Replica(left, thread_scale),) if left > 1 else ()
    return FragmentLayout(tuple(extents), tuple(digits), replicas)


def _share(extent: int, threads: int) -> int:
    """How many of the threads left go along a dimension: a divisor of them, exact where that wastes less than half."""
    exact = gcd(extent, threads)
    if 2 * exact > min(extent, threads):
        return exact
    divisors = [d for d in range(1, threads + 1) if threads % d == 0]
    return min((d for d in divisors if d >= min(extent, threads)), default=threads)


def widest_vector(extents: Sequence[int], threads: int, limit: int) -> int:
    """The widest vector up to ``limit`` that divides the last dimension and leaves every thread work."""
    if not extents:
        return 1
    total = 1
    for e in extents:
        total *= e
    width = 1
    while width * 2 <= limit and extents[-1] % (width * 2) == 0 and total // (width * 2) >= threads:
        width *= 2
    return width
