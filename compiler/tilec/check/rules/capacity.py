"""Shared memory and registers. CUDA C++ Programming Guide, technical specifications per compute capability."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, SHARED, SHARED_DYN, Buffer
from ...ir.build import const_int
from ...ir.stmt import For, Launch, TileOp
from ..context import RuleContext
from ..facts import OPAQUE, thread_count
from ..registry import rule
from .gemm import known

REGISTERS = 255  # 32-bit registers a thread can have


def size_of(buffer: Buffer) -> int | None:
    return buffer.size_bytes() if known(buffer.dtype) else None


def kib(count: int) -> str:
    return f"{count // 1024} KiB" if count % 1024 == 0 else f"{count / 1024:.1f} KiB"


@rule("smem-static", per_target=True)
def smem_static(ctx: RuleContext):
    target = ctx.target
    if target is None or target.kind != "cuda":
        return
    limit = target.static_shared_bytes if target.sm < 90 else target.shared_bytes
    for launch in ctx.program.launches():
        buffers = [b for b in ctx.facts.allocations(SHARED) if ctx.facts.allocs[b].launch is launch]
        sizes = [size_of(b) or 0 for b in buffers]
        if buffers and sum(sizes) > limit:
            largest = buffers[sizes.index(max(sizes))]
            yield ctx.report(
                f'{kib(sum(sizes))} of static shared memory (scope="shared"); {target.name} accepts {kib(limit)}, '
                "use the default scope",
                largest.span,
                *((b.name, b.span) for b in buffers if b is not largest),
                buffer=largest,
            )


@rule("smem-capacity", per_target=True)
def smem_capacity(ctx: RuleContext):
    """What is needed at one point at the least: TileLang gives tiles that never live together the same memory."""
    target = ctx.target
    if target is None or target.kind != "cuda":
        return
    for launch in ctx.program.launches():
        needs = _ranges(ctx, launch)
        peak: list[tuple[Buffer, int, int]] = []
        for point in sorted({first for _, first, _, _, _ in needs}):
            live = [(b, size, copies) for b, first, last, size, copies in needs if first <= point <= last]
            if sum(s * c for _, s, c in live) > sum(s * c for _, s, c in peak):
                peak = live
        total = sum(s * c for _, s, c in peak)
        if total <= target.shared_bytes:
            continue
        largest = max(peak, key=lambda item: item[1] * item[2])[0]
        parts = " + ".join(f"{b.name} {kib(s)}" + (f" x {c} stages" if c > 1 else "") for b, s, c in peak)
        yield ctx.report(
            f"the block needs {kib(total)} of shared memory ({parts}); {target.name} has {kib(target.shared_bytes)}",
            largest.span,
            *((b.name, b.span) for b, _, _ in peak if b is not largest),
            buffer=largest,
        )


def _ranges(ctx: RuleContext, launch: Launch) -> list[tuple[Buffer, int, int, int, int]]:
    """Per buffer: first and last use, bytes, copies for pipelining. Buffers of unknown size count nothing."""
    found = []
    several = len(ctx.program.launches()) > 1
    for buffer in ctx.facts.allocations(SHARED_DYN):
        place, size = ctx.facts.allocs[buffer], size_of(buffer)
        uses = ctx.facts.storage_uses.get(buffer, [])
        if size is None or (several and place.launch is not launch):
            continue
        orders = [a.place.order for a in uses]
        if not orders:
            found.append((buffer, place.order, place.order, size, 1))  # allocated all the same
            continue
        copies = _copies(ctx, buffer)
        first, last = min(orders), max(orders)
        if copies > 1:
            loop = _pipeline(ctx, buffer)
            first, last = _extent(ctx, loop, first, last)
        found.append((buffer, first, last, size, copies))
    return found


def _pipeline(ctx: RuleContext, buffer: Buffer) -> For | None:
    """The pipelined loop whose iterations overlap on a tile: a copy in its body fills the tile, another statement
    of it reads it."""
    for access in ctx.facts.storage_uses.get(buffer, ()):
        parent = access.place.parents[-1] if access.place.parents else None
        if (
            isinstance(parent, For)
            and parent.kind == "pipelined"
            and access.kind == "write"
            and isinstance(access.stmt, TileOp)
            and access.stmt.op == "copy"
            and access.stmt.region("src").buffer.scope == "global"
        ):
            return parent
    return None


def _copies(ctx: RuleContext, buffer: Buffer) -> int:
    """How many versions of a tile a pipeline keeps, at the least."""
    loop = _pipeline(ctx, buffer)
    if loop is None or any(a.kind == OPAQUE for a in ctx.facts.storage_uses[buffer]):
        return 1
    stages = const_int(loop.attrs.get("num_stages"))
    if stages is None or stages < 2 or loop.attrs.get("order") is not None or loop.attrs.get("stage") is not None:
        return 1
    inside = all(loop in a.place.parents for a in ctx.facts.storage_uses[buffer])
    return stages if inside else 1


def _extent(ctx: RuleContext, loop: For | None, first: int, last: int) -> tuple[int, int]:
    orders = [p.order for p in ctx.facts.places if loop is not None and (p.stmt is loop or loop in p.parents)]
    return min(first, *orders), max(last, *orders)


@rule("local-capacity")
def local_capacity(ctx: RuleContext):
    if ctx.blamed:
        return  # sizes are wrong already
    for buffer in ctx.facts.allocations(FRAGMENT):
        place, size = ctx.facts.allocs[buffer], size_of(buffer)
        threads = thread_count(place.launch)
        if size is None or threads is None or threads < 1 or not ctx.facts.uses.get(buffer) or ctx.is_blamed(buffer):
            continue
        registers = size // 4 // threads
        if registers > 2 * REGISTERS:
            yield ctx.report(
                f"{buffer.name} takes at least {registers} registers of each of {threads} threads; a thread has "
                f"{REGISTERS}, the rest spills to slow "
                "memory",
                buffer.span,
            )
