"""Stores whose element tells the thread that writes it: rounds of a loop never write what another thread wrote, so none waits for the one before."""
from __future__ import annotations

from collections.abc import Sequence

from ..analysis.bounds import Ranges
from ..ir.affine import linear
from ..ir.build import const_int
from ..ir.expr import Binary, Expr, Var, equal


def tells_thread(indices: Sequence[Expr], threads: Sequence[Var], ranges: Ranges) -> bool:
    """Whether two threads can never compute the same indices, whatever the other variables are: the terms of one index are digits of a number."""
    return any(_are_digits(e, threads, ranges) for e in (*indices, *_numbers(indices)))


def _numbers(indices: Sequence[Expr]) -> list[Expr]:
    """What neighbouring indices are the quotient and the remainder of."""
    found = []
    for high, low in zip(indices, indices[1:]):
        if isinstance(high, Binary) and isinstance(low, Binary) and (high.op, low.op) == ("floordiv", "floormod"):
            if equal(high.a, low.a) and const_int(high.b) is not None and const_int(high.b) == const_int(low.b):
                found.append(high.a)
    return found


def _are_digits(e: Expr, threads: Sequence[Var], ranges: Ranges) -> bool:
    terms, _ = linear(e)
    if not terms or not all(any(t is x for x, _ in terms) for t in threads):
        return False
    spans: list[tuple[int, int]] = []
    for term, factor in terms:
        low, high = ranges.bounds(term)
        if low is None or high is None:
            return False
        spans.append((abs(factor), high - low))
    reach = 0  # of the digits below
    for factor, span in sorted(spans):
        if factor <= reach:
            return False
        reach += factor * span
    return True
