"""The mbarrier protocol: arrivals complete phases, waits need the phase of their parity completed.

A block's statements run one after another here, so whatever must arrive has arrived when a wait is reached; a wait whose
phase is not complete then can never be satisfied (PTX ISA, "Parallel Synchronization and Communication Instructions:
mbarrier"). The completion of a matrix product is one arrival; a statement of the whole block is one by each of its threads.
Roles that run side by side, each waiting for the other, cannot be followed that way: that is said, not reported as a fault.
"""

from __future__ import annotations

from typing import Any

import torch

from ...ir.buffer import Buffer, Region
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from .expressions import integer
from .memory import Unsupported
from .state import State


def _key(state: State, r: Region) -> tuple[Buffer, int]:
    return r.buffer, integer(state, r.mins[0]) if r.mins else 0


def _needed(state: State, key: tuple[Buffer, int]) -> int:
    counts = key[0].attrs.get("arrive_counts") or [1]
    count = counts[min(key[1], len(counts) - 1)]
    return integer(state, count) if isinstance(count, Expr) else int(count)


def complete(state: State, r: Region) -> None:
    """The arrival of an asynchronous operation."""
    _arrive(state, _key(state, r), 1)


def arrive(state: State, op: TileOp, mask: torch.Tensor | None) -> None:
    """``T.mbarrier_arrive`` by the threads that take part."""
    key = _key(state, op.region("mbar"))
    needed = _needed(state, key)
    threads = state.threads if mask is None else int(mask.sum())
    _arrive(state, key, 1 if needed == 1 else threads)


def _arrive(state: State, key: tuple[Buffer, int], count: int) -> None:
    state.arrivals[key] = state.arrivals.get(key, 0) + count
    if state.arrivals[key] >= _needed(state, key):
        state.arrivals[key] = 0
        state.phases[key] = state.phases.get(key, 0) + 1


def wait(state: State, op: TileOp, mask: torch.Tensor | None) -> None:
    """Wait for the completion of the phase with the given parity; parity 1 on a fresh barrier passes at once."""
    key = _key(state, op.region("mbar"))
    parity: Any = op.args["parity"]
    value = integer(state, parity) if isinstance(parity, Expr) else int(parity)
    done = state.phases.get(key, 0)
    if value % 2 != done % 2:
        return
    if mask is not None and not bool(mask.all()):
        raise Unsupported(f"threads that wait for others at {key[0].name}[{key[1]}]: the interpreter runs the roles of a block one after another", op.span)
    state.fault(
        "barrier",
        f"this waits for phase parity {value} of {key[0].name}[{key[1]}], which nothing completes: {done} phases are complete and "
        f"{state.arrivals.get(key, 0)} of {_needed(state, key)} arrivals have happened",
        op.span,
    )
