"""A matrix operation through mma.sync: warps over tiles, k steps inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...ir.buffer import FRAGMENT, LOCAL, Buffer
from ...ir.build import binary, const
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import Alloc, For, If, Let, Stmt, Store
from ...records import dataclass
from .contract import MatrixContext
from .device import at, zero
from .instruction import Mma
from .layouts import accumulator_layout, operand_layout
from .metadata import lane_metadata
from .mma_functions import mma as mma_function
from .operands import OperandLoader, Warp, operand_registers
from .partition import TILE_M, TILE_N, WARP, WarpGrid
from .problem import MatrixProblem
from .shape import MatrixShape


def lower_mma(shape: MatrixShape, mma: Mma, grid: WarpGrid, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Without clearing; the caller has done that."""
    check_layout("C", shape, accumulator_layout(shape.op, ctx.threads, ctx.target), ctx)
    lets, warp = _warp_names(shape, grid, ctx)
    allocations: list[Stmt] = []
    sources: dict[str, _Source] = {}
    for which in ("A", "B"):
        source = _source(which, shape, mma, grid, warp, ctx)
        sources[which] = source
        if source.loader is not None:
            allocations.append(Alloc(shape.op.span, source.registers))
    k = Var("int32", None, "ko", "loop")
    positions = None if shape.E is None else _metadata_registers(shape, grid)
    described: tuple[Stmt, ...] = ()
    if positions is not None:
        allocations.append(Alloc(shape.op.span, positions))
        described = _load_metadata(shape, mma, grid, warp, ctx, positions, k)
    by_pairs = sources["B"].loader is not None and sources["B"].loader.comes_in_pairs and ctx.fragment_words() > _ROOMY
    steps = -(-shape.K // mma.k)
    sums = ctx.registers_of(shape.C.region.buffer)
    if positions is None and not by_pairs and _is_one_chain(shape, mma, grid, steps):
        work = _in_two_chains(_Step(shape, mma, grid, ctx, sources, k, None, sums), steps)
    else:
        loads = [s for which in ("A", "B")[: 1 if by_pairs else 2] for s in sources[which].load(k * mma.stored_k(which))]
        step = _Step(shape, mma, grid, ctx, sources, k, positions, sums)
        body = (*loads, *described, *(step.by_pairs() if by_pairs else step.whole()))
        work = (For(shape.op.span, k, const(0), const(steps), body, "unroll"),)
    whole = (*lets, *allocations, *work)
    if grid.threads == ctx.threads:
        return whole
    # A partial warp must not execute the instruction.
    return (If(shape.op.span, binary("lt", ctx.thread, const(grid.threads)), whole),)


def _is_one_chain(shape: MatrixShape, mma: Mma, grid: WarpGrid, steps: int) -> bool:
    """Whether a warp's multiplications wait for each other: so few tiles that each one's next comes before this one is done."""
    tiles = (shape.M // grid.m // TILE_M) * (shape.N // grid.n // TILE_N)
    return mma.c == "float32" and tiles <= _FEW_TILES and steps >= _LONG and steps % 2 == 0


def _in_two_chains(step: _Step, steps: int) -> tuple[Stmt, ...]:
    """Even and odd k steps add up apart."""
    span, k, first = step.shape.op.span, step.number, step.sums
    assert isinstance(k, Var)
    second = Buffer(f"{first.name}_odd", first.shape, first.dtype, LOCAL, span, attrs=dict(first.attrs))
    r, q = Var("int32", None, "r", "loop"), Var("int32", None, "r", "loop")
    body: list[Stmt] = []
    for odd, sums in enumerate((first, second)):
        number = k * 2 + odd
        body += [s for which in ("A", "B") for s in step.sources[which].load(number * step.mma.stored_k(which))]
        body += replace(step, number=number, sums=sums).whole()
    total = Load(first.dtype, None, first, (q,)) + Load(first.dtype, None, second, (q,))
    return (
        Alloc(span, second),
        For(span, r, const(0), first.shape[0], (Store(span, second, (r,), zero(first.dtype)),), "unroll"),
        For(span, k, const(0), const(steps // 2), tuple(body), "unroll"),
        For(span, q, const(0), first.shape[0], (Store(span, first, (q,), total),), "unroll"),
    )


_FEW_TILES = 2  # a multiplication takes as long as several others can be started
_LONG = 8
_ROOMY = 239  # registers of fragments that leave a thread's other 16 for operands and addresses


class _Source:
    """Where the multiplications find an operand: freshly loaded registers, or the fragment it already is."""

    def __init__(self, registers: Buffer, per_step: int, loader: OperandLoader | None) -> None:
        self.registers, self.per_step, self.loader = registers, per_step, loader

    def load(self, k: Any) -> tuple[Stmt, ...]:
        return self.loader.load(k) if self.loader else ()

    def first(self, step: Expr) -> Expr:
        """Register number of the step's first element."""
        return const(0) if self.loader else step * self.per_step


def _source(which: str, shape: MatrixShape, mma: Mma, grid: WarpGrid, warp: Warp, ctx: MatrixContext) -> _Source:
    operand = shape.A if which == "A" else shape.B
    if operand.scope == FRAGMENT:
        check_layout(which, shape, operand_layout(shape.op, which, ctx.threads, ctx.target), ctx)
        outer, tile, each = (
            (shape.M // grid.m, TILE_M, mma.a_registers)
            if which == "A"
            else (shape.N // grid.n, TILE_N, mma.b_registers)
        )
        return _Source(ctx.registers_of(operand.region.buffer), outer // tile * each, None)
    if not operand.region.buffer.is_shared():
        raise MatrixProblem(
            f"T.{shape.op.op}: {which} ({operand.region.buffer.name}) is in {operand.scope} memory; mma.sync reads "
            "its operands from shared memory or a fragment: copy it with T.copy first.",
            shape.op.arg_spans.get(which, shape.op.span),
        )
    registers = operand_registers(which, shape, mma, grid)
    return _Source(registers, 0, OperandLoader(which, shape, mma, grid, warp, ctx, registers))


def _warp_names(shape: MatrixShape, grid: WarpGrid, ctx: MatrixContext) -> tuple[tuple[Stmt, ...], Warp]:
    values = {
        "lane": ctx.thread % WARP,
        "warp_m": ctx.thread // WARP % grid.m,
        "warp_n": ctx.thread // (WARP * grid.m) % grid.n,
    }
    names = {name: Var("int32", None, name, "let") for name in values}
    lets = tuple(Let(shape.op.span, names[name], value) for name, value in values.items())
    return lets, Warp(names["lane"], names["warp_m"], names["warp_n"])


def _metadata_registers(shape: MatrixShape, grid: WarpGrid) -> Buffer:
    """One word for each 16 rows of a warp."""
    return Buffer("metadata_registers", (const(shape.M // grid.m // TILE_M),), "uint32", LOCAL, shape.op.span)


def _load_metadata(
    shape: MatrixShape, mma: Mma, grid: WarpGrid, warp: Warp, ctx: MatrixContext, registers: Buffer, step: Expr
) -> tuple[Stmt, ...]:
    """The words for k step ``step``."""
    i = Var("int32", None, "i", "loop")
    first = warp.m * (shape.M // grid.m) + i * TILE_M
    word = lane_metadata(shape, ctx, first, warp.lane, step, mma.bits)
    body = (Store(shape.op.span, registers, (i,), word),)
    return (For(shape.op.span, i, const(0), registers.shape[0], body, "unroll"),)


@dataclass(frozen=True)
class _Step:
    """The multiplications of k step ``number``: in any order, each element of C gets one."""

    shape: MatrixShape
    mma: Mma
    grid: WarpGrid
    ctx: MatrixContext
    sources: dict[str, _Source]
    number: Expr
    positions: Buffer | None
    sums: Buffer  # the accumulator's registers

    def whole(self) -> tuple[Stmt, ...]:
        """After the operands were loaded."""
        return self._columns(0, self.shape.N // self.grid.n // TILE_N)

    def by_pairs(self) -> tuple[Stmt, ...]:
        """Every two tiles of B are loaded right before they are used: the others take no registers meanwhile."""
        pair = Var("int32", None, "pair", "loop")
        loader = self.sources["B"].loader
        assert loader is not None
        body = (loader.load_pair(self.number * self.mma.stored_k("B"), pair), *self._columns(pair * 2, 2))
        return (For(self.shape.op.span, pair, const(0), const(loader.tiles // 2), body, "unroll"),)

    def _buffer(self, which: str) -> Buffer:
        return (self.shape.A if which == "A" else self.shape.B).region.buffer

    def _columns(self, first: Any, count: int) -> tuple[Stmt, ...]:
        """``count`` tiles of B by every tile of A."""
        shape, grid, sources, positions = self.shape, self.grid, self.sources, self.positions
        tiles_m, tiles_n = shape.M // grid.m // TILE_M, shape.N // grid.n // TILE_N
        i, j = Var("int32", None, "i", "loop"), Var("int32", None, "j", "loop")
        column = j if isinstance(first, int) and first == 0 else first + j
        exact = "".join(which.lower() for which in "AB" if self.ctx.is_exact(self._buffer(which)))
        call = mma_function(self.mma, self.ctx.target, exact).run(
            shape.op.span,
            at(self.sums, (i * tiles_n + column) * 4),
            at(sources["A"].registers, sources["A"].first(self.number) + i * self.mma.a_registers),
            at(sources["B"].registers, sources["B"].first(self.number) + column * self.mma.b_registers),
            *(() if positions is None else (Load("uint32", None, positions, (i,)),)),
        )
        inner = For(shape.op.span, j, const(0), const(count), (call,), "unroll")
        return (For(shape.op.span, i, const(0), const(tiles_m), (inner,), "unroll"),)


def check_layout(which: str, shape: MatrixShape, wanted: Any, ctx: MatrixContext) -> None:
    """Fragments must be whole and lie as the operation needs them."""
    region = {"A": shape.A, "B": shape.B, "C": shape.C}[which].region
    where = shape.op.arg_spans.get(which, shape.op.span)
    if not region.is_whole():
        raise MatrixProblem(
            f"T.{shape.op.op}: {which} is a part of the fragment {region.buffer.name}; fragments take part whole. "
            "Allocate a fragment of the part's size and copy, or slice a shared tile instead.",
            where,
        )
    if ctx.layout_of(region.buffer) != wanted:
        raise MatrixProblem(
            f"T.{shape.op.op}: the fragment {region.buffer.name} ({which}) is already laid out over the threads for "
            "another operation. Copy it to a fragment of its own for this one.",
            where,
        )
