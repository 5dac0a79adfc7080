"""The mbarrier protocol: arrivals complete phases, waits need the phase of their parity completed.

A block's statements run one after another here, so whatever must arrive has arrived when a wait is reached; a wait whose
phase is not complete then can never be satisfied (PTX ISA, "Parallel Synchronization and Communication Instructions:
mbarrier"). Each operation that signals a barrier counts as all the arrivals one phase needs from it: one.
"""
from __future__ import annotations

from typing import Any

from ...ir.buffer import Buffer, Region
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from ...source.span import Span
from .expressions import evaluate, integer
from .state import State


def _key(state: State, r: Region) -> tuple[Buffer, int]:
    return r.buffer, integer(state, r.mins[0]) if r.mins else 0


def _needed(state: State, key: tuple[Buffer, int]) -> int:
    counts = key[0].attrs.get("arrive_counts") or [1]
    count = counts[min(key[1], len(counts) - 1)]
    return integer(state, count) if isinstance(count, Expr) else int(count)


def arrive(state: State, r: Region, span: Span | None, count: int = 1) -> None:
    key = _key(state, r)
    state.arrivals[key] = state.arrivals.get(key, 0) + count
    if state.arrivals[key] >= _needed(state, key):
        state.arrivals[key] = 0
        state.phases[key] = state.phases.get(key, 0) + 1


def wait(state: State, op: TileOp) -> None:
    """Wait for the completion of the phase with the given parity; parity 1 on a fresh barrier passes at once."""
    key = _key(state, op.region("mbar"))
    parity: Any = op.args["parity"]
    value = int(evaluate(state, parity, None).reshape(-1)[0]) if isinstance(parity, Expr) else int(parity)
    current = state.phases.get(key, 0) % 2  # parity of the phase in progress
    if value % 2 == current:
        needed = _needed(state, key)
        if needed > 1:
            return  # arrivals of many threads are not counted one by one here
        state.fault("barrier", f"this waits for phase parity {value} of {key[0].name}[{key[1]}], which nothing completes: "
                    f"{state.phases.get(key, 0)} phases are complete", op.span)
