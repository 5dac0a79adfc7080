"""Columns of tensor memory: what buffers need, how they are packed, what is wasted. PTX ISA, tcgen05.alloc;
TileLang 0.1.15, lower_shared_tmem.cc."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import TMEM, Buffer, Region
from ...ir.stmt import Launch, TileOp
from ...records import dataclass
from ..context import RuleContext
from ..facts import Facts
from ..registry import rule
from .gemm import known
from .tmem import LANES, mma_operand

COLUMNS, LEAST = 512, 32
SCALE_ALIGNMENT = 4  # columns; what block-scaled MMAs read scale factors at


def columns(buffer: Buffer, laid_out: bool, accumulates: bool = False) -> int | None:
    """The 32-bit columns a buffer needs; None if that is not known.

    An MMA's layout folds rows above 128 into further columns, and spreads accumulators of 64 and 32 rows over all
    lanes.
    """
    shape = buffer.static_shape()
    if shape is None or len(shape) != 2 or not known(buffer.dtype) or min(shape) < 1:
        return None
    rows, width = shape
    if laid_out and rows > LANES and rows % LANES == 0:
        width *= rows // LANES
    elif laid_out and rows in (32, 64):
        width = width * rows // LANES
    bits = dtypes.bits(buffer.dtype)
    return -(-width * (max(bits, 32) if accumulates else bits) // 32)


def is_accumulator(facts: Facts, buffer: Buffer) -> bool:
    """Accumulators take a whole column per value, 16-bit ones too; operands are packed."""
    return any(a.argument == "C" for a in facts.storage_uses.get(buffer, ()))


def needed(ctx: RuleContext, buffer: Buffer) -> int | None:
    return columns(buffer, mma_operand(ctx.facts, buffer), is_accumulator(ctx.facts, buffer))


def allocation(count: int) -> int:
    """What the hardware hands out: a power of two, at least 32."""
    size = LEAST
    while size < count:
        size *= 2
    return size


@dataclass
class Arena:
    """One hardware allocation, shared by some buffers."""

    members: list[Buffer]
    used: int = 0
    size: int = 0
    open: bool = True


def plan(needs: dict[Buffer, int], released: set[Buffer]) -> list[Arena]:
    """How TileLang 0.1.15 packs buffers: widest first, each where it costs fewer columns than an allocation of its
    own."""
    arenas: list[Arena] = []
    for buffer in sorted(needs, key=lambda b: -needs[b]):
        need = needs[buffer]
        align = LEAST if need >= LEAST else SCALE_ALIGNMENT
        best, best_offset, best_cost = None, 0, allocation(need)
        for arena in arenas if buffer not in released else ():
            offset = -(-arena.used // align) * align
            if not arena.open or offset + need > COLUMNS:
                continue
            cost = allocation(offset + need) - arena.size
            if cost < best_cost:
                best, best_offset, best_cost = arena, offset, cost
        if best is None:
            best = Arena([], open=buffer not in released)
            arenas.append(best)
        best.members.append(buffer)
        best.used = best_offset + need
        best.size = allocation(best.used)
    return arenas


def tmem_of(ctx: RuleContext, launch: Launch) -> list[Buffer]:
    alone = len(ctx.program.launches()) == 1
    return [b for b in ctx.facts.allocations(TMEM) if alone or ctx.facts.allocs[b].launch is launch]


def released(ctx: RuleContext) -> set[Buffer]:
    return {
        p.stmt.args["buffer"].buffer.storage()
        for p in ctx.facts.ops("deallocate_tmem")
        if isinstance(p.stmt, TileOp) and isinstance(p.stmt.args.get("buffer"), Region)
    }


@rule("tmem-capacity")
def tmem_capacity(ctx: RuleContext):
    for launch in ctx.program.launches():
        buffers = tmem_of(ctx, launch)
        needs: dict[Buffer, int] = {}
        for buffer in buffers:
            need = needed(ctx, buffer)
            if need is None or ctx.is_blamed(buffer):
                continue
            if need > COLUMNS:
                yield ctx.report(
                    f"{buffer.name} ({shape_text(buffer)} {buffer.dtype}) needs {need} columns of tensor memory; a "
                    f"block has {COLUMNS}",
                    buffer.span,
                    buffer=buffer,
                )
                continue
            needs[buffer] = need
            total = sum(a.size for a in plan(needs, released(ctx)))
            if total > COLUMNS:
                parts = " + ".join(str(n) for n in needs.values())
                severity = "warning" if released(ctx) else None
                yield ctx.report(
                    f"{parts} columns of tensor memory take {total} once each allocation is a power of two of at "
                    f"least {LEAST}; a block has "
                    f"{COLUMNS}",
                    buffer.span,
                    *((f"{b.name}: {n} columns", b.span) for b, n in needs.items() if b is not buffer),
                    severity=severity,
                    buffer=buffer,
                )
                break


def shape_text(buffer: Buffer) -> str:
    return "x".join(str(e) for e in buffer.static_shape() or ())


@rule("tmem-columns")
def tmem_columns(ctx: RuleContext):
    for launch in ctx.program.launches():
        needs = {
            b: n
            for b in tmem_of(ctx, launch)
            if not ctx.is_blamed(b) and (n := needed(ctx, b)) is not None and n <= COLUMNS
        }
        for arena in plan(needs, released(ctx)):
            wasted = arena.size - sum(needs[b] for b in arena.members)
            for buffer in arena.members:
                if allocation(needs[buffer]) != needs[buffer]:
                    yield _report_width(ctx, buffer, needs[buffer], arena, wasted)


def _report_width(ctx: RuleContext, buffer: Buffer, need: int, arena: Arena, wasted: int):
    per_column = 32 / dtypes.bits(buffer.dtype)
    down, up = allocation(need) // 2, allocation(need)
    good = [f"{int(c * per_column)}" for c in (down, up) if c >= LEAST]
    unit = "column" if per_column == 1 else f"{buffer.dtype} element"
    fact = f"{buffer.name} needs {need} columns, which is not a power of two of at least 32"
    others = [b for b in arena.members if b is not buffer]
    if not wasted:
        names = ", ".join(b.name for b in others)
        return ctx.report(
            f"{fact}; it shares an allocation of {arena.size} columns with {names}, and none are wasted",
            buffer.span,
            severity="information",
        )
    scales = need < LEAST and buffer.dtype not in ("float32", "float16", "int32")
    shared = f" (shared with {', '.join(b.name for b in others)})" if others else ""
    return ctx.report(
        f"{fact}: {arena.size} columns are reserved{shared} and {wasted} of them wasted; "
        f"good widths nearby: {' and '.join(good)} {unit}s",
        buffer.span,
        severity="information" if scales else None,
    )
