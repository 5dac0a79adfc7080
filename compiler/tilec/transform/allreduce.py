"""A reduction of one value a thread along thread axes: over the lanes of a warp where they are neighbours, else through shared memory."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..ir.build import cast, const
from ..ir.expr import Expr, Load, Var
from ..ir.stmt import Alloc, Body, For, Stmt, Store, TileOp
from .cpu.reduce import accumulator_dtype, combine
from .unit import unit
from .warp import shuffle_xor

if TYPE_CHECKING:
    from .threads import ThreadLowering

WARP = 32


def lower_allreduce(op: TileOp, lowering: ThreadLowering, divergent: bool) -> list[Stmt]:
    lowering._converged(op, divergent or lowering.state.role is not None, "T.tvm_thread_allreduce")
    dst = op.region("dst")
    before, value = lowering.expression(op.args["value"], op, divergent)
    work = accumulator_dtype(dst.dtype)
    total = lowering.state.temporary_local(f"{dst.buffer.name}_all", 1, work, op.span)
    start = Store(op.span, total, (const(0),), cast(cast(value, dst.dtype), work))
    more = _lowered(op, start, lowering)
    result = Store(op.span, dst.buffer, dst.mins, cast(Load(work, op.span, total, (const(0),)), dst.dtype))
    return [*before, Alloc(op.span, total), *more, *lowering.statement(result, divergent)]


def _lowered(op: TileOp, start: Store, lowering: ThreadLowering) -> list[Stmt]:
    state = lowering.state
    axes = sorted(state.thread_vars.index(v) for v in op.args["axes"])
    count = math.prod(state.extents[a] for a in axes)
    if axes == [0] and count <= WARP and count & (count - 1) == 0 and state.threads % WARP == 0:
        return [unit((start, *_over_lanes(op, start, count)), op.span)]
    return _through_shared(op, start, axes, count, lowering)


def _over_lanes(op: TileOp, start: Store, count: int) -> Body:
    """Neighbouring lanes exchange values at halving distances."""
    steps: list[Stmt] = []
    place = start.indices
    offset = count // 2
    while offset:
        mine = Load(start.buffer.dtype, op.span, start.buffer, place)
        steps.append(Store(op.span, start.buffer, place, combine(op.args["kind"], mine, shuffle_xor(mine, offset))))
        offset //= 2
    return tuple(steps)


def _through_shared(op: TileOp, start: Store, axes: list[int], count: int, lowering: ThreadLowering) -> list[Stmt]:
    state, dtype, kind = lowering.state, start.buffer.dtype, op.args["kind"]
    shared = state.temporary_shared(start.buffer.name, (state.threads,), dtype, op.span)
    mine = Load(dtype, op.span, start.buffer, start.indices)
    write = unit((start, Store(op.span, shared, (state.thread,), mine)), op.span)
    r = Var("int32", None, "r", "loop")
    other = Load(dtype, None, shared, (_partner(r, axes, lowering),))
    first = Load(dtype, None, shared, (_partner(const(0), axes, lowering),))
    fold = For(op.span, r, const(1), const(count - 1), (Store(op.span, start.buffer, start.indices, combine(kind, mine, other)),), "serial")
    read = unit((Store(op.span, start.buffer, start.indices, first), fold), op.span)
    return [Alloc(op.span, shared), write, read]


def _partner(number: Expr, axes: list[int], lowering: ThreadLowering) -> Expr:
    """The thread with this number within the group that is reduced together."""
    state = lowering.state
    place: Expr = const(0)
    stride = 1
    for axis in range(3):
        if axis in axes:
            own = number % state.extents[axis] if axis != axes[-1] else number
            number = number // state.extents[axis]
        else:
            own = state.thread_vars[axis] if state.extents[axis] > 1 else const(0)
        place = place + own * stride
        stride *= state.extents[axis]
    return place
