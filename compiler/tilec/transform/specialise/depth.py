"""More stages than asked for, where shared memory is left that nobody else could use: a copy then has longer to arrive.

How many stages a ring has cannot be seen by the program. Blocks that a multiprocessor is meant to hold keep their share, and the stores
of accumulators keep theirs.
"""
from __future__ import annotations

from ...ir.buffer import FRAGMENT, GLOBAL, Region
from ...ir.build import const_int
from ...ir.stmt import Launch, TileOp
from ...ir.stmt import walk as walk_statements
from ...target.chips import Target
from ..bulk.accumulators import plan_rows
from .plan import LaunchPlan

_MOST = 8


def deepen(s: Launch, plan: LaunchPlan, threads: int, target: Target, room: int) -> dict[int, int]:
    """Raises the stages of the kernel's only pipelined loop; what was asked for, by loop, where that changed. ``room``: bytes that are left."""
    if len(plan.loops) != 1:
        return {}
    found = next(iter(plan.loops.values()))
    stage = sum(op.region("dst").buffer.size_bytes() or 0 for group in found.groups for op in group.copies)
    room -= _for_stores(s, threads, target)
    most = min(2 * found.stages, _MOST, const_int(found.loop.extent) or _MOST)
    more = min(most - found.stages, room // stage) if stage and found.stages > 1 else 0
    if more <= 0:
        return {}
    asked, found.stages = found.stages, found.stages + more
    return {id(found.loop): asked}


def _for_stores(s: Launch, threads: int, target: Target) -> int:
    """What stores of fragments through shared memory take at most."""
    total = 0
    for x in walk_statements(s.body):
        src, dst = (x.args.get("src"), x.args.get("dst")) if isinstance(x, TileOp) and x.op == "copy" else (None, None)
        if isinstance(src, Region) and isinstance(dst, Region) and src.buffer.scope == FRAGMENT and dst.buffer.scope == GLOBAL:
            rows = plan_rows(src, dst, s.body, threads, target)
            total += 2 * rows.tile_bytes() if rows is not None else src.buffer.size_bytes() or 0
    return total
