"""A matrix operation on Blackwell: tcgen05.mma from shared memory (A also from tensor memory) into tensor memory."""

from __future__ import annotations

from typing import Any

from ...ir.buffer import TMEM, Region
from ...ir.build import binary, cast, const, const_int, const_value, lift
from ...ir.expr import Expr, Var
from ...ir.stmt import If, Let, Stmt
from ...records import dataclass
from ...target.chips import Target
from ..sizes import is_multiple
from .barrier_functions import FENCE_PROXY_ASYNC, SYNC_THREADS
from .barriers import barrier_address, wait_implicitly
from .contract import MatrixContext
from .device import address_of
from .problem import MatrixProblem
from .shape import MatrixShape
from .shared import LAYOUT_TYPE, CanonicalTile, required_shared_layout
from .tcgen05_functions import COMMIT, DESCRIPTOR, FENCE_AFTER_SYNC, FENCE_BEFORE_SYNC
from .tcgen05_functions import mma as mma_function
from .tensor_memory import LANES, block_columns, region_address

# kind, format number of A and B, accumulator, format number of the accumulator (PTX ISA, instruction descriptor).
_FORMATS = {
    "float16": ("f16", 0),
    "bfloat16": ("f16", 1),
    "float8_e4m3fn": ("f8f6f4", 0),
    "float8_e5m2": ("f8f6f4", 1),
    "uint8": ("i8", 0),
    "int8": ("i8", 1),
}
_ACCUMULATOR = {"f16": ("float32", 1), "f8f6f4": ("float32", 1), "i8": ("int32", 2)}


@dataclass(frozen=True, slots=True)
class Atom:
    """One instruction: ``m`` x ``n`` with 32 bytes along K."""

    kind: str
    m: int
    n: int
    k: int
    descriptor: int


def select_atom(shape: MatrixShape, target: Target) -> Atom:
    a, b = _FORMATS.get(shape.A.dtype), _FORMATS.get(shape.B.dtype)
    op, span = shape.op.op, shape.op.span
    if not target.tcgen05:
        raise MatrixProblem(
            f"T.{op}: C ({shape.C.region.buffer.name}) is in tensor memory, which {target.name} does not have; "
            "accumulate in a fragment (T.alloc_fragment), or compile for sm_100a.",
            span,
        )
    if a is None or b is None or a[0] != b[0] or (a[0] == "f16" and a != b) or shape.C.dtype != _ACCUMULATOR[a[0]][0]:
        raise MatrixProblem(
            f"T.{op}: {shape.A.dtype} x {shape.B.dtype} -> {shape.C.dtype} is not supported in tensor memory; use "
            "float16, bfloat16 or 8-bit floats into float32, or 8-bit integers into int32.",
            span,
        )
    if a[0] == "i8" and target.sm != 100:
        raise MatrixProblem(f"T.{op}: {target.name} has no 8-bit integer tcgen05.mma (sm_100a has).", span)
    kind, k = a[0], 16 if a[0] == "f16" else 32
    m = LANES if shape.M % LANES == 0 else 64
    n = _largest_n(shape, m, kind)
    if shape.M % m or (m == 64 and shape.M != 64) or n is None or shape.K % k:
        raise MatrixProblem(
            f"T.{op}: {shape.M}x{shape.N}x{shape.K} does not fit tcgen05.mma: M must be 64 or a multiple of 128, N a "
            f"multiple of {16 if m == LANES else 8}, K a multiple of {k}.",
            span,
        )
    majors = (not shape.k_contiguous("A")) << 15 | (not shape.k_contiguous("B")) << 16
    descriptor = _ACCUMULATOR[kind][1] << 4 | a[1] << 7 | b[1] << 10 | majors | n >> 3 << 17 | m >> 4 << 24
    return Atom(kind, m, n, k, descriptor)


def _largest_n(shape: MatrixShape, m: int, kind: str) -> int | None:
    """The widest instruction that divides N (and, for N in rows of panels, whole panels)."""

    def legal(n: int) -> bool:
        if m == LANES:
            return n % 16 == 0
        return n % 8 == 0 and (kind != "i8" or n <= 32 or n % 16 == 0)

    return next((n for n in range(256, 0, -8) if shape.N % n == 0 and legal(n)), None)


def lower_tcgen05(shape: MatrixShape, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Order what the threads wrote, let one thread issue, signal the barrier; ``gemm`` then waits for it."""
    atom = select_atom(shape, ctx.target)
    span = shape.op.span
    mbar = shape.op.args.get("mbar")
    if shape.op.args.get("use_2cta"):
        raise MatrixProblem(f"T.{shape.op.op}: use_2cta is not supported by this compiler yet; leave it out.", span)
    if shape.op.op == "gemm" and not isinstance(mbar, Region):
        raise MatrixProblem(
            "T.gemm into tensor memory needs mbar= to learn when it is complete: allocate one with "
            "T.alloc_barrier(1) and pass it.",
            span,
        )
    issue: list[Stmt] = [FENCE_AFTER_SYNC.run(span), *_multiply(shape, atom, ctx)]
    if isinstance(mbar, Region):
        issue.append(COMMIT.run(span, barrier_address(mbar.buffer, mbar.mins, ctx)))
    out: list[Stmt] = [
        FENCE_PROXY_ASYNC.run(span),
        FENCE_BEFORE_SYNC.run(span),
        SYNC_THREADS.run(span),
        If(span, binary("eq", ctx.thread, const(0)), tuple(issue)),
    ]
    if shape.op.op == "gemm" and isinstance(mbar, Region):
        out += [*wait_implicitly(mbar, span, ctx), FENCE_AFTER_SYNC.run(span)]
    return tuple(out)


def _multiply(shape: MatrixShape, atom: Atom, ctx: MatrixContext) -> tuple[Stmt, ...]:
    span = shape.op.span
    lets_a, a = _operand("A", shape, atom, ctx)
    lets_b, b = _operand("B", shape, atom, ctx)
    d = Var("uint32", None, "accumulator", "let")
    keep = Var("uint32", None, "keep", "let")
    out: list[Stmt] = [
        *lets_a,
        *lets_b,
        Let(span, d, region_address(shape.C.region, span, ctx)),
        Let(span, keep, _keep(shape.op.args.get("clear_accum"))),
    ]
    fold = block_columns(shape.C.region.buffer)
    function = mma_function(atom.kind, shape.A.scope == TMEM)
    for i in range(shape.M // atom.m):
        for j in range(shape.N // atom.n):
            for k in range(shape.K // atom.k):
                target = d + const(i * fold + j * atom.n, "uint32")
                accumulate = keep if k == 0 else const(1, "uint32")
                out.append(
                    function.run(
                        span,
                        target,
                        a.at(i * atom.m, k),
                        b.at(j * atom.n, k),
                        const(atom.descriptor, "uint32"),
                        accumulate,
                    )
                )
    return tuple(out)


def _keep(clear: Any) -> Expr:
    """1 to add to the accumulator, 0 to start from zero."""
    known = const_value(clear)
    if clear is None or known is not None:
        return const(0 if known else 1, "uint32")
    return cast(binary("eq", cast(lift(clear), "int32"), const(0)), "uint32")


@dataclass(frozen=True)
class _TensorOperand:
    """A in tensor memory: a k step further is 8 columns (32 bytes) further."""

    base: Expr
    fold: int

    def at(self, outer: int, k: int) -> Expr:
        return self.base + const(outer // LANES * self.fold + k * 8, "uint32")


@dataclass(frozen=True)
class _SharedOperand:
    """A descriptor, advanced by adding to its address field (16-byte units).

    ``column``: the column, within its panel, that the operand starts at; the descriptor points at the panel.
    """

    base: Expr
    tile: CanonicalTile
    k_contiguous: bool
    k: int
    column: int

    def at(self, outer: int, step: int) -> Expr:
        row, column = (outer, step * self.k) if self.k_contiguous else (step * self.k, outer)
        return self.base + const(self.tile.place(row, self.column + column) * self.tile.bits // 8 >> 4, "uint64")


def _operand(which: str, shape: MatrixShape, atom: Atom, ctx: MatrixContext) -> tuple[tuple[Stmt, ...], Any]:
    operand = shape.A if which == "A" else shape.B
    span = shape.op.arg_spans.get(which, shape.op.span)
    if operand.scope == TMEM and which == "A":
        return (), _tensor_operand(shape, atom, ctx)
    if not operand.region.buffer.is_shared():
        raise MatrixProblem(
            f"T.{shape.op.op}: {which} ({operand.region.buffer.name}) is in {operand.scope} memory; tcgen05.mma "
            "reads it from shared memory (A also from tensor memory).",
            span,
        )
    tile = required_shared_layout(shape.op, which, ctx.threads, ctx.target)
    assert tile is not None
    contiguous = shape.k_contiguous(which)
    offset, column = _start_offset(which, shape, atom, tile)
    leading, stride = descriptor_strides(tile, contiguous)
    descriptor = Var("uint64", None, f"{which.lower()}_descriptor", "let")
    value = DESCRIPTOR.call(
        _base(operand.region, ctx),
        cast(offset, "uint32"),
        const(leading, "uint32"),
        const(stride, "uint32"),
        const(LAYOUT_TYPE[tile.width], "uint32"),
    )
    return (Let(shape.op.span, descriptor, value),), _SharedOperand(descriptor, tile, contiguous, atom.k, column)


def _tensor_operand(shape: MatrixShape, atom: Atom, ctx: MatrixContext) -> _TensorOperand:
    if shape.A.transposed or atom.m != LANES:
        raise MatrixProblem(
            f"T.{shape.op.op}: A in tensor memory must be M x K with M a multiple of 128.", shape.op.span
        )
    return _TensorOperand(region_address(shape.A.region, shape.op.span, ctx), block_columns(shape.A.region.buffer))


def _base(region: Region, ctx: MatrixContext) -> Expr:
    """The address of the tile's first element; stages are whole tiles, so the swizzle starts anew there."""
    zero = const(0)
    return address_of(*ctx.shared_element(region.buffer, (*region.mins[:-2], zero, zero)))


def _start_offset(which: str, shape: MatrixShape, atom: Atom, tile: CanonicalTile) -> tuple[Expr, int]:
    """Bytes from the tile's start to the row and panel the operand starts in, and the column within the panel."""
    operand = shape.A if which == "A" else shape.B
    row, column = operand.region.mins[-2:]
    contiguous, panel = shape.k_contiguous(which), tile.panel_columns
    known = const_int(column)
    inside = known % panel if known is not None else 0
    # A start within a panel that is not known must not be carried over the panel's end by the steps along K.
    steps_stay = contiguous and panel % shape.K == 0 and is_multiple(column, shape.K)
    aligned = is_multiple(row, 8) and (
        is_multiple(column, panel)
        or (contiguous and inside % (32 * 8 // tile.bits) == 0 and (known is not None or steps_stay))
    )
    extent, piece = (shape.M, atom.m) if which == "A" else (shape.N, atom.n)
    if not aligned or (not contiguous and extent > piece and piece % panel):
        raise MatrixProblem(
            f"T.{shape.op.op}: {which} is a part of {operand.region.buffer.name} that tcgen05.mma cannot address: it "
            f"must start at a multiple of 8 rows and of {panel} columns.",
            shape.op.arg_spans.get(which, shape.op.span),
        )
    return tile.place(row, column - inside) * (tile.bits // 8), inside


def descriptor_strides(tile: CanonicalTile, k_contiguous: bool) -> tuple[int, int]:
    """Leading and stride byte offsets of the descriptor (PTX ISA, "Strides"; CUTLASS make_umma_desc)."""
    if k_contiguous:
        # Unswizzled: from one 16-byte column to the next, and between groups of 8 rows. Swizzled: leading is unused.
        return (tile.panel_bytes, 128) if tile.width == 16 else (16, 8 * tile.width)
    # Along M or N from panel to panel, and along K between groups of 8; unswizzled the two change places.
    return (128, tile.panel_bytes) if tile.width == 16 else (tile.panel_bytes, 8 * tile.width)
