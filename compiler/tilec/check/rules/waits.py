"""Asynchronous operations and what waits for them, in program order. PTX ISA: cp.async, cp.async.bulk, tcgen05.commit, wgmma."""

from __future__ import annotations

from ...ir.buffer import GLOBAL, TMEM, Buffer, Region
from ...ir.build import const_int
from ...ir.expr import Var, walk
from ...ir.stmt import For, If, TileOp, While
from ..context import RuleContext
from ..facts import OPAQUE, READ, WRITE, Access, Place, has_jump
from ..registry import rule
from .barriers import barrier_key

_WGMMAS = ("wgmma_gemm", "wgmma_gemm_sp")
_TENSOR_MEMORY_MMAS = ("tcgen05_gemm", "tcgen05_gemm_blockscaled", "gemm")


def is_ordered_elsewhere(ctx: RuleContext) -> bool:
    """Whether something not understood, or a schedule, may place the waits."""
    return ctx.facts.has_unsupported or bool(ctx.program.attrs.get("ws_schedules"))


def early_reader(ctx: RuleContext, buffer: Buffer, start: Place, waits: list[Place], but: tuple[str, ...] = ()) -> Access | None:
    """The first read of a buffer after ``start`` with none of the waits between. A wait before ``start`` in a loop around both
    belongs to the iteration before."""
    end = min((w.order for w in waits if w.order > start.order), default=1 << 30)
    follows = comes_too if not waits or not start.inside(For, While) else runs_with
    return next(
        (
            a
            for a in ctx.facts.storage_uses.get(buffer.storage(), ())
            if a.kind in (READ, OPAQUE)
            and start.order < a.place.order < end
            and follows(a.place, start)
            and not (isinstance(a.stmt, TileOp) and a.stmt.op in but)
        ),
        None,
    )


def runs_with(place: Place, other: Place) -> bool:
    """Whether the threads that come to ``other`` come to ``place`` as well: it stands in the same branches."""
    for number, parent in enumerate(other.parents):
        if isinstance(parent, If):
            if number >= len(place.parents) or place.parents[number] is not parent:
                return False
            if _is_in(parent.then, place, number) != _is_in(parent.then, other, number):
                return False
    return True


def comes_too(place: Place, start: Place) -> bool:
    """Whether what comes to ``start`` comes to ``place`` later: it stands in the same branches or further out."""
    jumps = any(isinstance(p, (If, For, While)) and p not in place.parents and has_jump(bodies_of(p)) for p in start.parents)
    return not jumps and runs_with(start, place)


def bodies_of(s) -> tuple:
    return (*s.then, *s.other) if isinstance(s, If) else s.body


def _is_in(body, place: Place, number: int) -> bool:
    inner = place.parents[number + 1] if number + 1 < len(place.parents) else place.stmt
    return any(s is inner for s in body)


def is_specialised(ctx: RuleContext) -> bool:
    """Whether groups of threads wait for each other in branches of their own: a wait may then stand for another one."""
    return any(p.inside(If) for p in ctx.facts.ops("mbarrier_wait_parity", "mbarrier_arrive"))


def barrier_waits(ctx: RuleContext, *barriers: Region) -> list[Place]:
    """The waits that may be for one of these barriers, and those on elements of their arrays that nothing completes: that is told elsewhere."""
    if is_specialised(ctx):
        return ctx.facts.ops("mbarrier_wait_parity")
    found, completed = [], _completed(ctx)
    for place in ctx.facts.ops("mbarrier_wait_parity"):
        region = place.stmt.args.get("mbar") if isinstance(place.stmt, TileOp) else None
        if not isinstance(region, Region) or any(_may_be_same(region, b, completed) for b in barriers):
            found.append(place)
    return found


def _completed(ctx: RuleContext) -> set[tuple[Buffer, int] | None]:
    regions = [p.stmt.args.get(name) for p in ctx.facts.ops("tma_copy", *_TENSOR_MEMORY_MMAS) if isinstance(p.stmt, TileOp) for name in ("mbar", "barrier")]
    return {barrier_key(r) for r in regions if isinstance(r, Region)}


def _may_be_same(a: Region, b: Region, completed: set[tuple[Buffer, int] | None]) -> bool:
    if a.buffer.storage() is not b.buffer.storage():
        return False
    one, other = barrier_key(a), barrier_key(b)
    return one is None or other is None or one == other or one not in completed


def committed_with(ctx: RuleContext, place: Place, barrier: Region) -> list[Region]:
    """The barriers that an MMA's end completes: its own and, as a commit covers all MMAs before it, those of later ones."""
    barriers = [barrier]
    for later in ctx.facts.ops(*_TENSOR_MEMORY_MMAS):
        region = later.stmt.args.get("mbar") if isinstance(later.stmt, TileOp) else None
        if isinstance(region, Region) and later.order > place.order:
            barriers.append(region)
    return barriers


def _leaves_pending(wait: Place, copy: Place, copies: list[Place]) -> bool:
    """Whether a T.ptx_wait_group(n) may pass before the copy is done: fewer than n copies were begun after it. In loops the copies of
    other iterations count, so nothing is said about them."""
    op = wait.stmt
    allowed = const_int(op.args.get("count")) if isinstance(op, TileOp) else None
    if not allowed or wait.inside(For, While) or any(c.inside(For, While) for c in copies):
        return False
    return sum(copy.order < c.order < wait.order for c in copies) < allowed


@rule("async-copy-wait")
def async_copy_wait(ctx: RuleContext):
    """T.async_copy completes at T.ptx_wait_group; before, its tile may still be written."""
    if is_ordered_elsewhere(ctx) or ctx.facts.ops("cp_async_barrier_noinc"):
        return
    waits = ctx.facts.ops("ptx_wait_group")
    copies = ctx.facts.ops("async_copy")
    for place in copies:
        op = place.stmt
        assert isinstance(op, TileOp)
        dst = op.args["dst"]
        if not isinstance(dst, Region) or ctx.is_blamed(dst.buffer):
            continue
        reader = early_reader(ctx, dst.buffer, place, [w for w in waits if not _leaves_pending(w, place, copies)])
        if reader is not None and reader.kind == READ:
            yield ctx.report(
                f"{dst.buffer.name} is read while T.async_copy may still be writing it; T.ptx_wait_group(0) must "
                "come first",
                reader.stmt.span,
                ("the copy", op.span),
            )


@rule("tma-barrier")
def tma_barrier(ctx: RuleContext):
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
    """A tile loaded by T.tma_copy and read before anything waits for its barrier."""
    if is_ordered_elsewhere(ctx):
        return
    for place in ctx.facts.ops("tma_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst, barrier = op.args["dst"], op.args.get("barrier")
        if not isinstance(dst, Region) or not isinstance(barrier, Region) or not dst.buffer.is_shared():
            continue
        waits = barrier_waits(ctx, barrier) if _is_waited_for(ctx, barrier) else []
        reader = early_reader(ctx, dst.buffer, place, waits)
        if reader is not None and reader.kind == READ:
            yield ctx.report(
                f"{dst.buffer.name} is read before its T.tma_copy has been waited for; T.mbarrier_wait_parity on "
                f"{barrier.buffer.name} must come first",
                reader.stmt.span,
                ("the copy", op.span),
            )


def _is_waited_for(ctx: RuleContext, barrier: Region) -> bool:
    """Whether any wait may be for this very barrier."""
    key = barrier_key(barrier)
    if key is not None and not 0 <= key[1] < len(key[0].attrs.get("arrive_counts", ())):
        return True  # no such barrier: told elsewhere
    for place in ctx.facts.ops("mbarrier_wait_parity"):
        region = place.stmt.args.get("mbar") if isinstance(place.stmt, TileOp) else None
        other = barrier_key(region) if isinstance(region, Region) else None
        if key is None or other is None or key == other:
            return True
    return False


@rule("tcgen05-wait")
def tcgen05_wait(ctx: RuleContext):
    """An accumulator copied out before anything waits for the barrier of the MMA that writes it."""
    if is_ordered_elsewhere(ctx) or ctx.facts.ops("tcgen05_mma_arrive"):
        return
    for place in ctx.facts.ops("tcgen05_gemm", "tcgen05_gemm_blockscaled"):
        op = place.stmt
        assert isinstance(op, TileOp)
        C, barrier = op.args.get("C"), op.args.get("mbar")
        if not isinstance(C, Region) or C.buffer.scope != TMEM or not isinstance(barrier, Region):
            continue
        waits = barrier_waits(ctx, *committed_with(ctx, place, barrier))
        reader = early_reader(ctx, C.buffer, place, waits, _TENSOR_MEMORY_MMAS)
        if reader is not None and reader.kind == READ and isinstance(reader.stmt, TileOp) and reader.stmt.op == "copy":
            yield ctx.report(
                f"{C.buffer.name} is read before its MMA has been waited for; T.mbarrier_wait_parity on "
                f"{barrier.buffer.name} must come first",
                reader.stmt.span,
                ("the MMA", op.span),
            )


@rule("wgmma-wait")
def wgmma_wait(ctx: RuleContext):
    if is_ordered_elsewhere(ctx):
        return
    waits = ctx.facts.ops("wait_wgmma")
    multiplications = ctx.facts.ops(*_WGMMAS)
    if multiplications and not waits:
        yield ctx.report(
            "T.wgmma_gemm is asynchronous and nothing waits for it; T.wait_wgmma(0) must come before its operands "
            "are overwritten or its accumulator is read",
            multiplications[0].stmt.span,
        )
        return
    for place in multiplications:
        op = place.stmt
        assert isinstance(op, TileOp)
        C = op.args["C"]
        reader = early_reader(ctx, C.buffer, place, waits, _WGMMAS) if isinstance(C, Region) else None
        if reader is not None and reader.kind == READ:
            yield ctx.report(
                f"{C.buffer.name} is read while T.wgmma_gemm may still be writing it; T.wait_wgmma(0) must come first",
                reader.stmt.span,
                ("the product", op.span),
            )
            return
        overwritten = _overwritten_next(ctx, place, waits)
        if overwritten is not None:
            yield ctx.report(
                f"the next iteration overwrites {overwritten.buffer.name} while T.wgmma_gemm may still be reading it; T.wait_wgmma(0) must come in the loop",
                op.span,
                ("overwritten here", overwritten.stmt.span),
            )
            return


def _overwritten_next(ctx: RuleContext, place: Place, waits: list[Place]) -> Access | None:
    """The statement that writes a product's operand at the beginning of the loop around both, where that loop waits nowhere."""
    loop = place.parents[-1] if place.parents else None
    op = place.stmt
    if not isinstance(loop, For) or loop.kind == "pipelined" or const_int(loop.extent) == 1 or not isinstance(op, TileOp):
        return None
    if any(loop in w.parents for w in waits) or has_jump(loop.body):
        return None
    for operand in (op.args.get("A"), op.args.get("B")):
        if not isinstance(operand, Region) or not operand.buffer.is_shared() or any(isinstance(x, Var) for m in operand.mins for x in walk(m)):
            continue
        for access in ctx.facts.storage_uses.get(operand.buffer.storage(), ()):
            whole = access.region is not None and access.region.form == "whole"
            if access.kind == WRITE and whole and access.place.order < place.order and access.place.parents == place.parents:
                return access
    return None
