"""Parallel iterations that update one element of a fragment: one after another, as a loop would."""
from __future__ import annotations

from typing import Any

import torch

from ...ir.buffer import FRAGMENT
from ...ir.expr import Binary, Expr, Load, equal, walk
from ...ir.stmt import Store
from .expressions import evaluate, indices_of
from .memory import convert

_ATOMIC = {"add": "add", "max": "max", "min": "min"}  # what memory combines at once, in order


def is_repeated(state: Any, s: Store, mask: Any) -> bool:
    """Whether some element is updated by several of the iterations that run together."""
    if s.buffer.scope != FRAGMENT or mask is None or mask.numel() < 2 or not _reads_itself(s):
        return False
    flat = state.address(s.buffer, indices_of(state, s.buffer, s.indices, mask))[0]
    where = flat.expand(mask.shape)[mask]
    return bool(where.unique().numel() != where.numel())


def store_repeated(state: Any, s: Store, mask: torch.Tensor) -> None:
    simple = _update(s)
    indices = indices_of(state, s.buffer, s.indices, mask)
    if simple is not None:
        kind, operand = simple
        value, taint = state.tainted(lambda: evaluate(state, operand, mask))
        state.update(s.buffer, indices, convert(value, operand.dtype, s.buffer.dtype), kind, mask, s.span, taint)
        return
    turns = _turns(state.address(s.buffer, indices)[0].expand(mask.shape), mask)
    for turn in range(int(turns.max()) + 1):
        now = mask & (turns == turn)
        value, taint = state.tainted(lambda: evaluate(state, s.value, now))  # noqa: B023
        state.store(s.buffer, indices, convert(value, s.value.dtype, s.buffer.dtype), now, s.span, taint)


def _turns(flat: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """For each iteration, how many before it update the same element; -1 for those that do not run."""
    turns = torch.full(mask.shape, -1, dtype=torch.int64)
    met: dict[int, int] = {}
    places, running, numbers = flat.reshape(-1).tolist(), mask.reshape(-1).tolist(), turns.reshape(-1)
    for i, place in enumerate(places):
        if running[i]:
            numbers[i] = met.get(place, 0)
            met[place] = met.get(place, 0) + 1
    return numbers.reshape(mask.shape)


def _reads_itself(s: Store) -> bool:
    return any(isinstance(e, Load) and e.buffer is s.buffer for e in walk(s.value))


def _update(s: Store) -> tuple[str, Expr] | None:
    """``y[i] = y[i] + v`` of one type as the name of an update and ``v``."""
    value = s.value
    if not isinstance(value, Binary) or value.op not in _ATOMIC or value.dtype != s.buffer.dtype:
        return None
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if isinstance(own, Load) and own.buffer is s.buffer and all(map(equal, own.indices, s.indices)):
            if not any(isinstance(e, Load) and e.buffer is s.buffer for e in walk(other)):
                return _ATOMIC[value.op], other
    return None
