"""Tensor memory: sharing out its columns, allocating them, and copies to and from fragments.

The memory of a block is 128 lanes of 512 32-bit columns. Row r of a matrix of 128 rows is lane r; more rows continue in
further columns; a matrix of 64 rows fills lanes 0..15 of each quarter of 32 (PTX ISA, tcgen05 data path layouts D, F).
"""

from __future__ import annotations

from dataclasses import field

from ...analysis.layout import REGISTER, THREAD, Digit, FragmentLayout, Replica
from ...ir import dtypes
from ...ir.buffer import FRAGMENT, TMEM, Buffer, Region
from ...ir.build import binary, cast, const, const_int
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import For, If, Let, Stmt, TileOp
from ...records import dataclass
from ...source.span import Span
from ..sizes import is_multiple
from .barrier_functions import SYNC_THREADS
from .contract import MatrixContext
from .device import DeviceFunction, address_of, at
from .partition import WARP
from .problem import MatrixProblem
from .tcgen05_functions import ALLOC, DEALLOC, FENCE_AFTER_SYNC, FENCE_BEFORE_SYNC, load, load_half, store

LANES, WARPGROUP, LEAST_COLUMNS = 128, 128, 32


def block_columns(buffer: Buffer) -> int:
    """The 32-bit columns of (up to) 128 rows of a buffer."""
    cols = const_int(buffer.shape[-1])
    assert cols is not None
    return -(-cols * dtypes.bits(buffer.dtype) // 32)


def columns_of(buffer: Buffer) -> int:
    """The 32-bit columns that a buffer occupies."""
    extents = buffer.static_shape()
    if extents is None or len(extents) < 2:
        raise MatrixProblem(
            f"T.alloc_tmem: {buffer.name} must have two dimensions, known at compile time.", buffer.span
        )
    *leading, rows, _ = extents
    if rows > LANES and rows % LANES or rows not in (64, 128) and rows < LANES:
        raise MatrixProblem(
            f"T.alloc_tmem: {buffer.name} has {rows} rows; tensor memory holds 64, 128 or a multiple of 128.",
            buffer.span,
        )
    total = block_columns(buffer) * -(-rows // LANES)
    for extent in leading:
        total *= extent
    return total


@dataclass(frozen=True)
class TensorMemoryPlan:
    """One allocation of ``columns`` for all buffers of a block, and the column each starts at."""

    columns: int
    first: dict[Buffer, int] = field(default_factory=dict)


def plan_tensor_memory(buffers: tuple[Buffer, ...], capacity: int = 512) -> TensorMemoryPlan:
    """Buffers side by side, the widest first; the hardware allocates a power of two of at least 32 columns."""
    first: dict[Buffer, int] = {}
    used = 0
    for b in sorted(buffers, key=lambda b: -columns_of(b)):
        first[b] = used
        used += columns_of(b)
    if used > capacity:
        sizes = ", ".join(f"{b.name}: {columns_of(b)}" for b in buffers)
        raise MatrixProblem(
            f"T.alloc_tmem: the block's buffers need {used} 32-bit columns ({sizes}); tensor memory has {capacity}. "
            "Use fewer or narrower accumulators.",
            buffers[-1].span,
        )
    return TensorMemoryPlan(max(LEAST_COLUMNS, 1 << (used - 1).bit_length()), first)


def allocate(
    plan: TensorMemoryPlan, slot: Buffer, base: Var, ctx: MatrixContext, span: Span | None
) -> tuple[Stmt, ...]:
    """At the kernel's start. ``slot``: one uint32 of shared memory for the address; ``base`` then names it."""
    request = ALLOC.run(span, address_of(slot, (const(0),)), const(plan.columns, "uint32"))
    return (
        If(span, binary("lt", ctx.thread, const(WARP)), (request,)),
        FENCE_BEFORE_SYNC.run(span),
        SYNC_THREADS.run(span),
        FENCE_AFTER_SYNC.run(span),
        Let(span, base, Load("uint32", None, slot, (const(0),))),
    )


def deallocate(plan: TensorMemoryPlan, base: Var, ctx: MatrixContext, span: Span | None) -> tuple[Stmt, ...]:
    """At the kernel's end, by every thread that is still there."""
    release = DEALLOC.run(span, base, const(plan.columns, "uint32"))
    return (
        FENCE_BEFORE_SYNC.run(span),
        SYNC_THREADS.run(span),
        FENCE_AFTER_SYNC.run(span),
        If(span, binary("lt", ctx.thread, const(WARP)), (release,)),
    )


def address(buffer: Buffer, plan: TensorMemoryPlan, base: Expr) -> Expr:
    """The tensor memory address of a buffer: lane in bits 16..31, column in bits 0..15."""
    return base + const(plan.first[buffer], "uint32")


def _warpgroups(cols: int, bits: int, threads: int) -> int:
    """How many warpgroups share the columns of a copy: those that get whole 32-bit columns each."""
    most = threads // WARPGROUP
    return max(g for g in range(1, most + 1) if most % g == 0 and cols % g == 0 and cols // g * bits % 32 == 0)


def fragment_layout(rows: int, cols: int, dtype: str, threads: int) -> FragmentLayout | None:
    """The layout of a fragment that a tensor memory tile is copied to or from: a thread holds (part of) a row."""
    if threads % WARPGROUP or (rows != 64 and rows % LANES):
        return None
    share = _warpgroups(cols, dtypes.bits(dtype), threads)
    each, copies = cols // share, threads // WARPGROUP // share
    if rows == 64:
        down = [Digit(0, 16, 1, THREAD, 1), Digit(0, 4, 16, THREAD, 32)]
    else:
        down = [Digit(0, LANES, 1, THREAD, 1), Digit(0, rows // LANES, LANES, REGISTER, each)]
    digits = (*down, Digit(1, each, 1, REGISTER, 1), Digit(1, share, each, THREAD, WARPGROUP))
    replicas = [Replica(2, 16)] if rows == 64 else []
    if copies > 1:
        replicas.append(Replica(copies, WARPGROUP * share))
    return FragmentLayout((rows, cols), tuple(d for d in digits if d.extent > 1), tuple(replicas))


def copy_fragment_layout(op: TileOp, threads: int) -> FragmentLayout:
    """The layout that a ``copy`` between tensor memory and a fragment gives the fragment."""
    tile, fragment, _ = _sides(op)
    rows, cols = (const_int(e) for e in tile.extents[-2:])
    layout = None if rows is None or cols is None else fragment_layout(rows, cols, tile.dtype, threads)
    if layout is None or len(fragment.extents) != 2:
        raise MatrixProblem(
            f"T.copy between {tile.buffer.name} in tensor memory and {fragment.buffer.name}: a two-dimensional tile "
            "of 64 rows or a multiple of 128, and a multiple of 128 threads, are needed.",
            op.span,
        )
    return layout


def _sides(op: TileOp) -> tuple[Region, Region, bool]:
    """The tensor memory side, the fragment side, and whether tensor memory is read."""
    src, dst = op.region("src"), op.region("dst")
    reads = src.buffer.scope == TMEM
    tile, other = (src, dst) if reads else (dst, src)
    if other.buffer.scope != FRAGMENT:
        raise MatrixProblem(
            f"T.copy: {tile.buffer.name} is in tensor memory, which is copied to and from fragments only, not "
            f"{other.buffer.scope}; copy through a T.alloc_fragment buffer.",
            op.span,
        )
    if other.dtype != tile.dtype:
        raise MatrixProblem(
            f"T.copy: {tile.buffer.name} is {tile.dtype} and {other.buffer.name} {other.dtype}; copies of tensor "
            "memory do not convert. Copy to a fragment of the same type and convert from there.",
            op.span,
        )
    return tile, other, reads


def lower_tensor_memory_copy(op: TileOp, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """``copy`` with tensor memory on one side. The data must be complete: waited for and fenced."""
    tile, fragment, reads = _sides(op)
    layout = copy_fragment_layout(op, ctx.threads)
    if not fragment.is_whole() or ctx.layout_of(fragment.buffer) != layout:
        raise MatrixProblem(
            f"T.copy: the fragment {fragment.buffer.name} must be copied whole and be laid out as tensor memory is "
            "(a row a thread); another operation already gave it a different layout.",
            op.span,
        )
    bits = dtypes.bits(tile.dtype)
    rows, cols = layout.shape
    share = _warpgroups(cols, bits, ctx.threads)
    words = cols // share * bits // 32
    # A warp reaches the 32 lanes of its number modulo 4; warpgroups share the columns.
    own = ctx.thread // WARP % 4 * (WARP << 16) + ctx.thread // WARPGROUP % share * words
    start = region_address(tile, op.span, ctx) + cast(own, "uint32")
    registers = ctx.registers_of(fragment.buffer)
    out: list[Stmt] = []
    for block in range(max(1, rows // LANES)):
        for first, size, count in _chunks(words):
            function = store(size) if not reads else load_half(size) if rows == 64 else load(size)
            out.append(
                _transfer(
                    function,
                    registers,
                    block * words + first,
                    size,
                    count,
                    32 // bits if bits < 32 else 1,
                    start + const(block * block_columns(tile.buffer) + first, "uint32"),
                    op.span,
                )
            )
    return tuple(out)


def _transfer(
    function: DeviceFunction,
    registers: Buffer,
    first: int,
    size: int,
    count: int,
    pack: int,
    start: Expr,
    span: Span | None,
) -> Stmt:
    """``count`` transfers of ``size`` columns; ``pack`` elements are one 32-bit register."""
    i = Var("int32", None, "i", "loop")
    call = function.run(span, at(registers, (i * size + first) * pack), start + cast(i * size, "uint32"))
    return For(span, i, const(0), const(count), (call,), "unroll")


def _chunks(words: int) -> list[tuple[int, int, int]]:
    """(first column, columns a transfer, transfers): the instruction moves a power of two of columns."""
    out, first, size = [], 0, 32
    while size:
        count = (words - first) // size
        if count:
            out.append((first, size, count))
            first += count * size
        size //= 2
    return out


def region_address(tile: Region, span: Span | None, ctx: MatrixContext) -> Expr:
    """The address of a tile's first element. It must start at a row of block 0 of 128 and at a whole column."""
    buffer, bits = tile.buffer, dtypes.bits(tile.dtype)
    per_tile = columns_of(buffer)
    stage: Expr = const(0)
    for extent, index in zip(buffer.shape[:-2], tile.mins[:-2]):
        per_tile //= const_int(extent) or 1
        stage = stage * extent + index
    row, column = const_int(tile.mins[-2]), tile.mins[-1]
    if row is None or row % LANES or not is_multiple(column, max(1, 32 // bits)):
        raise MatrixProblem(
            f"{buffer.name}: a part of a tensor memory buffer must start at a multiple of 128 rows and at a whole "
            "32-bit column.",
            span,
        )
    within = (column if bits == 32 else column // (32 // bits)) + row // LANES * block_columns(buffer)
    return ctx.tensor_memory_of(buffer) + cast(stage * per_tile + within, "uint32")
