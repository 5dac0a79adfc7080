"""Shared tiles as wgmma and tcgen05 read them: the canonical layouts of the PTX ISA's shared-memory matrix descriptor.

A row-major tile [rows, columns] is cut into panels ``width`` bytes wide (128, 64, 32, or 16 unswizzled), stored one
after the other; within a panel, the 16-byte pieces of a row are exchanged by an XOR with the row's number. The same
storage serves both majors: K-major when the columns run along K, MN-major when they run along M or N.
"""

from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import TMEM, Buffer
from ...ir.build import binary
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from ...records import dataclass
from ...target.chips import Target
from .problem import MatrixProblem
from .shape import matrix_shape

# The descriptor's layout type by panel width (bits 61..63): no swizzle, 32, 64 and 128 bytes.
LAYOUT_TYPE = {16: 0, 32: 6, 64: 4, 128: 2}


@dataclass(frozen=True)
class CanonicalTile:
    """Where the elements of a shared tile lie. Leading dimensions (stages) count whole tiles."""

    rows: int
    columns: int
    bits: int
    width: int  # bytes of a panel's row

    @property
    def panel_columns(self) -> int:
        return self.width * 8 // self.bits

    @property
    def panel_bytes(self) -> int:
        return self.rows * self.width

    @property
    def alignment(self) -> int:
        """Bytes the tile's address must be a multiple of, for the XOR to depend on the row alone."""
        return max(8 * self.width, 128)

    def place(self, row: Any, column: Any) -> Any:
        """Element offset before the XOR: where a descriptor that starts at this element points."""
        w = self.panel_columns
        return column // w * (self.rows * w) + row * w + column % w

    def offset(self, indices: tuple[Any, ...], leading: tuple[int, ...] = ()) -> Any:
        """Element offset of an element; ``leading``: the extents of the dimensions before the last two."""
        *front, row, column = indices
        w, piece = self.panel_columns, 128 // self.bits
        within = column % w
        swizzled = _xor(within // piece, self._phase(row)) * piece + within % piece
        tile: Any = 0
        for extent, index in zip(leading, front):
            tile = tile * extent + index
        return tile * (self.rows * self.columns) + column // w * (self.rows * w) + row * w + swizzled

    def physical(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        """Indices into the buffer, taken as row-major memory, of the place of an element."""
        leading = buffer.static_shape()
        assert leading is not None
        flat = self.offset(indices[-2:])
        return (*indices[:-2], flat // self.columns, flat % self.columns)

    def _phase(self, row: Any) -> Any:
        """What is XORed to a 16-byte piece's number: address bits 7.. of the row."""
        if self.width == 16:
            return 0
        return row // (128 // self.width) % (self.width // 16)


def _xor(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b == 0:
        return a
    return binary("bitxor", a, b) if isinstance(a, Expr) or isinstance(b, Expr) else a ^ b


def canonical_tile(rows: int, columns: int, dtype: str) -> CanonicalTile | None:
    """The widest panels that divide the rows of a tile; None where tcgen05 can read no such tile."""
    bits = dtypes.bits(dtype)
    row_bytes = columns * bits // 8
    widths = [w for w in (128, 64, 32, 16) if row_bytes % w == 0]
    return CanonicalTile(rows, columns, bits, widths[0]) if widths and rows % 8 == 0 and bits >= 8 else None


def required_shared_layout(op: TileOp, which: str, threads: int, target: Target) -> CanonicalTile | None:
    """How the shared tile A or B must be stored for this operation by so many threads; None if any storage will do.

    mma.sync reads any storage that keeps 16 aligned bytes of a row together.
    """
    from .wgmma import select_wgmma, stored_tile

    shape = matrix_shape(op)
    operand = shape.A if which == "A" else shape.B
    if operand.region.buffer.is_shared() and select_wgmma(shape, threads, target) is not None:
        return stored_tile(operand)
    if shape.C.scope != TMEM or not operand.region.buffer.is_shared():
        return None
    extents = operand.region.buffer.static_shape()
    tile = canonical_tile(extents[-2], extents[-1], operand.dtype) if extents else None
    if tile is None:
        raise MatrixProblem(
            f"T.{op.op}: {which} ({operand.region.buffer.name}) cannot be stored as tcgen05 reads it: its rows must "
            "be a multiple of 8 and each row a multiple of 16 bytes.",
            op.arg_spans.get(which, op.span),
        )
    return tile
