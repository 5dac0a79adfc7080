"""Bringing a k step of A or B from shared memory into the registers that mma.sync wants."""

from __future__ import annotations

from typing import Any

from ...ir.buffer import LOCAL, Buffer
from ...ir.build import binary, const, select
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import For, Stmt, Store
from ...records import dataclass
from .contract import MatrixContext
from .device import address_of, at, zero
from .instruction import Mma
from .layouts import mma_operand
from .mma_functions import ldmatrix
from .partition import TILE_M, TILE_N, WarpGrid
from .shape import MatrixShape
from .whole_rows import moves_whole_rows


@dataclass(frozen=True)
class Warp:
    """The names of this thread's lane and of its warp's place in the grid."""

    lane: Expr
    m: Expr
    n: Expr


@dataclass(frozen=True)
class OperandLoader:
    """Loads one operand, one k step at a time, into ``registers``: ``tiles`` tiles of ``per_tile`` elements."""

    which: str
    shape: MatrixShape
    mma: Mma
    grid: WarpGrid
    warp: Warp
    ctx: MatrixContext
    registers: Buffer

    @property
    def per_tile(self) -> int:
        return self.mma.a_registers if self.which == "A" else self.mma.b_registers

    @property
    def tiles(self) -> int:
        """Tiles a warp owns along M (A) or N (B)."""
        return self._extent() // (TILE_M if self.which == "A" else TILE_N)

    def _extent(self) -> int:
        return self.shape.M // self.grid.m if self.which == "A" else self.shape.N // self.grid.n

    def _first(self) -> Expr:
        return (self.warp.m if self.which == "A" else self.warp.n) * self._extent()

    def load(self, k: Any) -> tuple[Stmt, ...]:
        """The statements that load the step starting at ``k``."""
        return self._by_ldmatrix(k) if self._allows_ldmatrix() else self._element_by_element(k)

    @property
    def comes_in_pairs(self) -> bool:
        """Whether ``load_pair`` loads it."""
        return self.which == "B" and not self.mma.sparse and self.tiles % 2 == 0 and self._allows_ldmatrix()

    def load_pair(self, k: Any, pair: Expr) -> Stmt:
        """Two neighbouring tiles of B, of the step starting at ``k``."""
        return self._ldmatrix(k, pair, 0, 4)

    def _allows_ldmatrix(self) -> bool:
        return moves_whole_rows(self.which, self.shape, self.mma.bits, self.mma.k)

    def _by_ldmatrix(self, k: Any) -> tuple[Stmt, ...]:
        if self.which == "B" and self.mma.sparse:
            return self._ldmatrix_along_k(k)
        if self.which == "B" and self.tiles > 1:
            pairs = self._ldmatrix_loop(k, 0, self.tiles // 2, 4)
            return pairs if self.tiles % 2 == 0 else (*pairs, *self._ldmatrix_loop(k, self.tiles - 1, 1, 2))
        return self._ldmatrix_loop(k, 0, self.tiles, 4 if self.which == "A" else 2)

    def _ldmatrix_loop(self, k: Any, first_tile: int, count: int, matrices: int) -> tuple[Stmt, ...]:
        """``count`` loads of ``matrices`` 8 x 8 matrices each, the first for tile ``first_tile``."""
        i = Var("int32", None, "i", "loop")
        return (For(self.shape.op.span, i, const(0), const(count), (self._ldmatrix(k, i, first_tile, matrices),), "unroll"),)

    def _ldmatrix(self, k: Any, i: Expr, first_tile: int, matrices: int) -> Stmt:
        """The ``i``-th of such loads."""
        a_side = self.which == "A"
        step = TILE_M if a_side else TILE_N * (matrices // 2)
        tile_elements = matrices * 128 // max(self.mma.bits, 8) // 4  # elements a lane receives
        lane, chunk = self.warp.lane, 128 // self.mma.bits
        upper = (lane // 16) % 2 if matrices == 4 else const(0)
        middle = (lane // 8) % 2
        # Registers follow the matrices' order: A goes down its rows first, B along k first.
        outer_half, k_half = (middle, upper) if a_side else (upper, middle)
        contiguous = self.shape.k_contiguous(self.which)
        outer = self._first() + first_tile * TILE_N * (not a_side) + i * step + outer_half * 8
        if contiguous:
            position = self.shape.at(self.which, outer + lane % 8, k + k_half * chunk)
        else:
            position = self.shape.at(self.which, outer, k + k_half * 8 + lane % 8)
        source = self.ctx.shared_element(self._buffer(), position)
        destination = at(self.registers, i * tile_elements + first_tile * self.per_tile)
        return ldmatrix(matrices, not contiguous).run(self.shape.op.span, destination, address_of(*source))

    def _ldmatrix_along_k(self, k: Any) -> tuple[Stmt, ...]:
        """B of a sparse operation: the four matrices of a tile lie behind each other along k."""
        i = Var("int32", None, "i", "loop")
        lane, chunk = self.warp.lane, 128 // self.mma.bits
        outer = self._first() + i * TILE_N
        contiguous = self.shape.k_contiguous(self.which)
        if contiguous:
            position = self.shape.at(self.which, outer + lane % 8, k + lane // 8 * chunk)
        else:
            position = self.shape.at(self.which, outer, k + lane)
        source = self.ctx.shared_element(self._buffer(), position)
        call = ldmatrix(4, not contiguous).run(self.shape.op.span, at(self.registers, i * self.per_tile), address_of(*source))
        return (For(self.shape.op.span, i, const(0), const(self.tiles), (call,), "unroll"),)

    def _element_by_element(self, k: Any) -> tuple[Stmt, ...]:
        layout = mma_operand(
            self.which, self.shape.M if self.which == "A" else self.shape.N, self.mma.stored_k(self.which), self.mma, self.grid
        )
        r = Var("int32", None, "r", "loop")
        outer, inner = layout.index_of(self.ctx.thread, r)
        buffer, indices = self.ctx.shared_element(self._buffer(), self.shape.at(self.which, outer, k + inner))
        value: Expr = Load(buffer.dtype, None, buffer, indices)
        if self.shape.K % self.mma.k:
            value = select(binary("lt", k + inner, const(self.shape.K)), value, zero(buffer.dtype))
        body = (Store(self.shape.op.span, self.registers, (r,), value),)
        return (For(self.shape.op.span, r, const(0), const(self.tiles * self.per_tile), body, "unroll"),)

    def _buffer(self) -> Buffer:
        return (self.shape.A if self.which == "A" else self.shape.B).region.buffer


def operand_registers(which: str, shape: MatrixShape, mma: Mma, grid: WarpGrid) -> Buffer:
    """The register array for one k step."""
    outer, tile, each = (
        (shape.M // grid.m, TILE_M, mma.a_registers) if which == "A" else (shape.N // grid.n, TILE_N, mma.b_registers)
    )
    buffer = (shape.A if which == "A" else shape.B).region.buffer
    dtype = buffer.dtype if mma.bits >= 8 else "int8"  # 4-bit elements stay two a byte
    return Buffer(f"{buffer.name}_registers", (const(outer // tile * each),), dtype, LOCAL, shape.op.span)
