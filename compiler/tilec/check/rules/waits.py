"""Asynchronous copies and what waits for them."""

from __future__ import annotations

from ...ir.buffer import Region
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..registry import rule


@rule("async-copy-wait")
def async_copy_wait(ctx: RuleContext):
    """T.async_copy completes at T.ptx_wait_group; without any, its tile is read too early."""
    if ctx.facts.has_unsupported or ctx.facts.ops("ptx_wait_group"):
        return
    for place in ctx.facts.ops("async_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst = op.args["dst"]
        if not isinstance(dst, Region) or ctx.is_blamed(dst.buffer):
            continue
        readers = [
            a for a in ctx.facts.storage_uses[dst.buffer.storage()] if a.kind == "read" and a.place.order > place.order
        ]
        if readers:
            yield ctx.report(
                f"{dst.buffer.name} is read while T.async_copy may still be writing it; T.ptx_wait_group(0) must "
                "come first",
                readers[0].stmt.span,
                ("the copy", op.span),
            )


@rule("tma-barrier")
def tma_barrier(ctx: RuleContext):
    from ...ir.buffer import GLOBAL

    for place in ctx.facts.ops("tma_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src = op.args["src"]
        if (
            isinstance(src, Region)
            and src.buffer.scope == GLOBAL
            and op.args.get("barrier") is None
            and "barrier" not in op.arg_spans
        ):
            yield ctx.report("T.tma_copy from global memory needs barrier=, the mbarrier its bytes arrive on", op.span)


@rule("tma-wait")
def tma_wait(ctx: RuleContext):
    """A tile loaded by T.tma_copy and read although the kernel waits for no barrier at all."""
    if ctx.facts.has_unsupported or ctx.facts.ops("mbarrier_wait_parity"):
        return
    for place in ctx.facts.ops("tma_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst, barrier = op.args["dst"], op.args.get("barrier")
        if not isinstance(dst, Region) or not isinstance(barrier, Region) or not dst.buffer.is_shared():
            continue
        readers = [
            a for a in ctx.facts.storage_uses[dst.buffer.storage()] if a.kind == "read" and a.place.order > place.order
        ]
        if readers:
            yield ctx.report(
                f"{dst.buffer.name} is read before its T.tma_copy has been waited for; T.mbarrier_wait_parity on "
                f"{barrier.buffer.name} must come "
                "first",
                readers[0].stmt.span,
                ("the copy", op.span),
            )
