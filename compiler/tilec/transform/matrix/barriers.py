"""mbarriers: initialisation, waiting, arriving, and the phase an implicit wait is for.

``T.gemm(..., mbar=)`` into tensor memory waits for itself without being told a parity. Of every barrier so used each
thread keeps the parity to wait for next, flips it at each such wait, and takes it over from explicit waits, so that
loops and mixtures of both forms stay in step with the hardware.
"""

from __future__ import annotations

from typing import Any

from ...ir.buffer import BARRIER, CLUSTER_BARRIER, LOCAL, Buffer, Region
from ...ir.build import binary, cast, const, const_int, lift
from ...ir.expr import Expr, Load, Unknown, Var
from ...ir.stmt import Body, For, If, Stmt, Store, TileOp, walk
from ...source.span import Span
from .barrier_functions import ARRIVE, ARRIVE_AFTER_COPIES, DUE_AFTER_COPIES, EXPECT_TX, FENCE_INIT, FENCE_PROXY_ASYNC, INIT, SYNC_THREADS, wait
from .contract import MatrixContext
from .device import address_of
from .problem import MatrixProblem

BARRIER_OPS = ("mbarrier_wait_parity", "mbarrier_arrive", "mbarrier_expect_tx", "fence_proxy_async", "cp_async_barrier_noinc")


def barriers_that_wait_implicitly(body: Body) -> tuple[Buffer, ...]:
    """The barrier buffers on which a ``gemm`` waits by itself: each needs a phase array."""
    found = [
        s.args["mbar"].buffer
        for s in walk(body)
        if isinstance(s, TileOp) and s.op == "gemm" and isinstance(s.args.get("mbar"), Region)
    ]
    return tuple(dict.fromkeys(found))


def phase_array(barriers: Buffer) -> Buffer:
    """A thread's own record of the next parity to wait for, one a barrier; starts at zero."""
    return Buffer(f"{barriers.name}_phase", (const(_count(barriers)),), "uint32", LOCAL, barriers.span)


def start_phases(phases: Buffer) -> tuple[Stmt, ...]:
    i = Var("int32", None, "i", "loop")
    store = Store(phases.span, phases, (i,), const(0, "uint32"))
    return (For(phases.span, i, const(0), phases.shape[0], (store,), "unroll"),)


def initialise(barriers: tuple[Buffer, ...], ctx: MatrixContext) -> tuple[Stmt, ...]:
    """One thread initialises every barrier; all threads may use them after the returned statements."""
    if not barriers:
        return ()
    span = barriers[0].span
    inits: list[Stmt] = []
    for b in barriers:
        for i, count in enumerate(_arrive_counts(b)):
            inits.append(INIT.run(b.span, barrier_address(b, (const(i),), ctx), cast(lift(count), "uint32")))
    if ctx.target.sm >= 90:
        inits += [FENCE_INIT.run(span), FENCE_PROXY_ASYNC.run(span)]
    return (If(span, binary("eq", ctx.thread, const(0)), tuple(inits)), SYNC_THREADS.run(span))


def _count(barriers: Buffer) -> int:
    total = 1
    for extent in barriers.shape:
        known = const_int(extent)
        if known is None:
            raise MatrixProblem(
                f"The number of barriers in {barriers.name} must be known at compile time.", barriers.span
            )
        total *= known
    return total


def _arrive_counts(barriers: Buffer) -> list[Any]:
    counts = list(barriers.attrs.get("arrive_counts") or [1] * _count(barriers))
    if any(isinstance(c, Unknown) for c in counts) or len(counts) != _count(barriers):
        raise MatrixProblem(
            f"The arrival counts of the barriers {barriers.name} must be known at compile time; give T.alloc_barrier "
            "an integer or a list of integers.",
            barriers.span,
        )
    return counts


def barrier_address(buffer: Buffer, indices: tuple[Expr, ...], ctx: MatrixContext) -> Expr:
    if buffer.scope not in (BARRIER, CLUSTER_BARRIER):
        raise MatrixProblem(
            f"{buffer.name} is in {buffer.scope} memory and no barrier; allocate it with T.alloc_barrier.", buffer.span
        )
    return address_of(*ctx.shared_element(buffer, indices))


def wait_implicitly(mbar: Region, span: Span | None, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Wait for the phase that is due on a barrier, and remember that the next one follows."""
    phases = ctx.phases_of(mbar.buffer)
    assert phases is not None, "a barrier with implicit waits needs a phase array"
    index = (_flat(mbar),)
    phase = Load("uint32", None, phases, index)
    flip = Store(span, phases, index, binary("bitxor", phase, const(1, "uint32")))
    return (wait(ctx.target).run(span, barrier_address(mbar.buffer, mbar.mins, ctx), phase), flip)


def _flat(mbar: Region) -> Expr:
    index: Any = const(0)
    for extent, i in zip(mbar.buffer.shape, mbar.mins):
        index = index * extent + i
    return index


def lower_barrier_op(op: TileOp, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """``mbarrier_wait_parity``, ``mbarrier_arrive``, ``mbarrier_expect_tx``, ``fence_proxy_async``."""
    if op.op == "fence_proxy_async":
        return (FENCE_PROXY_ASYNC.run(op.span),) if ctx.target.sm >= 90 else ()
    _require(op, 90 if op.op == "mbarrier_expect_tx" else 80, ctx)
    mbar = op.region("mbar")
    address = barrier_address(mbar.buffer, mbar.mins, ctx)
    if op.op == "cp_async_barrier_noinc":
        return ((DUE_AFTER_COPIES if op.args.get("due") else ARRIVE_AFTER_COPIES).run(op.span, address),)
    if op.op == "mbarrier_expect_tx":
        return (EXPECT_TX.run(op.span, address, cast(lift(op.args["bytes"]), "uint32")),)
    if op.op == "mbarrier_arrive":
        count = op.args.get("count")
        times = 1 if count is None else const_int(lift(count))
        if times is None:
            raise MatrixProblem("T.mbarrier_arrive: the count must be known at compile time.", op.span)
        return (ARRIVE.run(op.span, address),) * times
    parity = binary("bitand", cast(lift(op.args["parity"]), "uint32"), const(1, "uint32"))
    waited: list[Stmt] = [wait(ctx.target).run(op.span, address, parity)]
    phases = ctx.phases_of(mbar.buffer)
    if phases is not None:
        waited.append(Store(op.span, phases, (_flat(mbar),), binary("bitxor", parity, const(1, "uint32"))))
    if ctx.target.tcgen05:
        from .tcgen05_functions import FENCE_AFTER_SYNC

        waited.append(FENCE_AFTER_SYNC.run(op.span))
    return tuple(waited)


def _require(op: TileOp, sm: int, ctx: MatrixContext) -> None:
    if ctx.target.sm < sm:
        raise MatrixProblem(
            f"T.{op.op} needs sm_{sm} or newer; {ctx.target.name} has no such instruction. Compile for a newer "
            "target, or synchronise with T.sync_threads.",
            op.span,
        )
