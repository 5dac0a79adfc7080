"""Tiles of a convolution's matrix (``T.im2col``) by the copy engine (PTX ISA, "im2col mode"; CUDA driver API, cuTensorMapEncodeIm2col).

A map of that mode moves along the pixels at which the convolution's window may stand: a box within the image, whose corners say how far outside of it
the window's first element may lie, in steps of the convolution's stride. An instruction names the first pixel and the element of the window; it takes as
many pixels as the tile has rows, goes on in the next row and the next image by itself, and fills with 0 what is outside.
"""
from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import const_int, lift
from ...ir.expr import Expr
from ...ir.stmt import TileOp
from ...records import dataclass
from .tensor_map import TILE_ALIGNMENT, TensorMap, Window, bulk_layout, covers, tensor_problem

_CHANNELS, _PIXELS = 256, 1024  # of an instruction
_CORNERS = range(-128, 128)
_OFFSETS = range(256)
_STRIDES = range(1, 9)
_BYTES = 16
# The copy engine takes about as long for a few bytes of a pixel as for 128 (some four cycles, measured on an H200): threads are faster where a tile has fewer.
SHORTEST_ROW = 128


@dataclass(frozen=True, slots=True)
class ImageTile:
    """A tile [rows, columns] of pixels and channels, in panels ``width`` channels wide."""

    rows: int
    columns: int
    width: int
    swizzle: int
    window: Window

    def map_of(self, image: Buffer) -> TensorMap:
        return TensorMap(image, (self.rows, self.width), self.swizzle, window=self.window)

    def boxes(self) -> range:
        return range(0, self.columns, self.width)


def image_tile(op: TileOp, safe_values: object = ()) -> ImageTile | str:
    """How the copy engine gathers what a ``T.im2col`` asks for, or why it cannot."""
    src, dst = op.region("src"), op.region("dst")
    problem = tensor_problem(src, safe_values)
    if problem:
        return problem
    if src.buffer.ndim != 4 or not src.is_whole():
        return f"{src.buffer.name} is not an image of four dimensions"
    b = dst.buffer
    if src.dtype != dst.dtype or not b.is_shared() or b.view_of is not None or b.strides is not None or not covers(dst):
        return f"{b.name} is not moved as a whole" if src.dtype == dst.dtype else f"it converts {src.dtype} to {dst.dtype}"
    rows, columns = (const_int(e) for e in dst.extents[-2:])
    if rows is None or columns is None or any(const_int(e) != 1 for e in dst.extents[:-2]):
        return f"{b.name} is a stack of tiles"
    problem = _window_problem(op, columns)
    tile = problem or _tile(op, rows, columns)
    if not isinstance(tile, str) and tile.width * dtypes.bits(dst.dtype) // 8 < SHORTEST_ROW:
        return f"threads gather pieces of {tile.width * dtypes.bits(dst.dtype) // 8} bytes of pixels faster; {SHORTEST_ROW} are one for the copy engine"
    return tile


def _window_problem(op: TileOp, columns: int) -> str:
    size, stride, dilation, pad = (const_int(lift(op.args[n])) for n in ("kernel", "stride", "dilation", "pad"))
    channels = const_int(op.region("src").buffer.shape[3])
    if size is None or stride is None or dilation is None or pad is None or channels is None:
        return "the convolution's window, its stride, padding and channels are not constant"
    if channels % columns:
        return f"{columns} of {channels} channels: a tile has more than one place of the window"
    if stride not in _STRIDES:
        return f"the copy engine has strides of 1 to 8, not {stride}"
    if -pad not in _CORNERS or pad - dilation * (size - 1) not in _CORNERS or dilation * (size - 1) not in _OFFSETS:
        return "the window is larger than the copy engine knows"
    return ""


def _tile(op: TileOp, rows: int, columns: int) -> ImageTile | str:
    dst = op.region("dst")
    layout, size = bulk_layout(dst.buffer), dtypes.bits(dst.dtype) // 8
    width, swizzle = (layout.panel_columns, layout.width) if layout is not None else (columns, 0)
    if rows > _PIXELS or width > _CHANNELS or width * size % _BYTES or rows * width * size % TILE_ALIGNMENT:
        return f"a tile of {rows} x {columns} is none that the copy engine writes"
    size, stride, dilation, pad = (const_int(lift(op.args[n])) or 0 for n in ("kernel", "stride", "dilation", "pad"))
    return ImageTile(rows, columns, width, swizzle, Window(-pad, pad - dilation * (size - 1), stride))


def image_start(op: TileOp) -> tuple[Expr, ...]:
    """Where a tile starts: channel, column, row and number of the image, and the column and row within the window. ``ir/convolution.py`` says it by element."""
    _, H, W, C = op.region("src").buffer.shape
    rows, columns = op.region("dst").extents[-2:]
    size, stride, dilation, pad = (lift(op.args[n]) for n in ("kernel", "stride", "dilation", "pad"))
    out_h, out_w = ((extent + pad * 2 - dilation * (size - 1) - 1) // stride + 1 for extent in (H, W))
    pixel, column = lift(op.args["nhw_step"]) * rows, lift(op.args["c_step"]) * columns
    place = column // C
    return (column % C, pixel % out_w * stride - pad, pixel // out_w % out_h * stride - pad, pixel // (out_h * out_w), place % size * dilation,
            place // size * dilation)
