"""Accesses whose element tells the thread, or the warp, that makes it.

Rounds of a loop never write what another thread wrote, so none waits for the one before; threads of a warp wait for their warp alone.
"""
from __future__ import annotations

from collections.abc import Sequence

from ..analysis.bounds import Ranges
from ..ir.affine import linear
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Expr, Load, Var, equal, walk
from ..ir.stmt import Body, For, Let, Store, expressions
from ..ir.stmt import walk as walk_statements


def tells_thread(indices: Sequence[Expr], threads: Sequence[Var], ranges: Ranges) -> bool:
    """Whether two threads can never compute the same indices, whatever the other variables are: the terms of one index are digits of a number."""
    return any(_are_digits(e, threads, ranges) for e in (*indices, *_numbers(indices)))


_WARP = 32


def tells_warp(indices: Sequence[Expr], thread: Var, ranges: Ranges) -> bool:
    """Whether threads of two warps can never compute the same indices, whatever the other variables are: one index has a digit that numbers the
    threads in groups of neighbours, none of which reaches over the end of a warp."""
    return any(_numbers_groups(e, thread, ranges) for e in indices)


def _numbers_groups(e: Expr, thread: Var, ranges: Ranges) -> bool:
    terms, _ = linear(e)
    mine = [t for t, _ in terms if any(x is thread for x in walk(t))]
    return len(mine) == 1 and _is_group(mine[0], thread) and _without_overlap(terms, ranges)


def _is_group(e: Expr, thread: Var) -> bool:
    """The thread's number, or a quotient of it and a power of two up to the size of a warp."""
    if e is thread:
        return True
    if not isinstance(e, Binary) or e.op != "floordiv":
        return False
    size = const_int(e.b)
    terms, first = linear(e.a)
    return size is not None and 0 < size <= _WARP and _WARP % size == 0 and first % _WARP == 0 and len(terms) == 1 and terms[0][0] is thread and terms[0][1] == 1


class Places:
    """Numbers for the indices at which statements access shared tiles, where those tell the warp or the thread."""

    def __init__(self) -> None:
        self._known: list[tuple[Buffer, tuple[Expr, ...]]] = []

    def of(self, body: Body, thread: Var, ranges: Ranges) -> frozenset[tuple[Buffer, int]]:
        """The shared buffers that ``body`` accesses at one such place only, with its number; less than 0: it tells the thread."""
        found: dict[Buffer, list[tuple[Expr, ...]]] = {}
        elsewhere: set[Buffer] = set()  # accessed in other ways
        for s in walk_statements(body):
            if isinstance(s, Store):
                found.setdefault(s.buffer, []).append(s.indices)
            for e in expressions(s):
                for x in walk(e):
                    if isinstance(x, Load):
                        found.setdefault(x.buffer, []).append(x.indices)
                    elif isinstance(x, Call):
                        elsewhere.update(a.buffer for a in x.args if isinstance(a, Load))
        inner = {x.var for x in walk_statements(body) if isinstance(x, (For, Let))}
        told = set()
        for b, places in found.items():
            first = places[0]
            if not b.is_shared() or b in elsewhere or b.view_of is not None or any(not all(map(equal, first, p)) for p in places[1:]):
                continue
            if any(x in inner or isinstance(x, (Load, Call)) for i in first for x in walk(i)) or not tells_warp(first, thread, ranges):
                continue
            told.add((b, self._number(b, first) * (-1 if tells_thread(first, [thread], ranges) else 1)))
        return frozenset(told)

    def _number(self, b: Buffer, indices: tuple[Expr, ...]) -> int:
        for k, (buffer, known) in enumerate(self._known):
            if buffer is b and all(map(equal, known, indices)):
                return k + 1
        self._known.append((b, indices))
        return len(self._known)


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
    return bool(terms) and all(any(t is x for x, _ in terms) for t in threads) and _without_overlap(terms, ranges)


def _without_overlap(terms: Sequence[tuple[Expr, int]], ranges: Ranges) -> bool:
    """Whether the sum tells every term, like a number its digits."""
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
