"""T.im2col: which element of an image a convolution's matrix has at a place.

Row ``m`` is a place of the output (image, row, column), column ``k`` a place of the kernel and a channel (row, column, channel). The tile is
the ``nhw_step``-th of its height and the ``c_step``-th of its width. Outside the image the matrix is 0.
"""
from __future__ import annotations

from .build import binary, const_int, lift
from .expr import Expr
from .stmt import TileOp


def image_place(op: TileOp, i: Expr, j: Expr) -> tuple[tuple[Expr, ...], Expr | None]:
    """Indices of the image for element (i, j) of the tile, and a condition that must hold beside them being inside (None: always)."""
    _, H, W, C = (op.region("src").buffer.shape[k] for k in range(4))
    rows, columns = op.region("dst").extents[-2:]
    size, stride, dilation, pad = (lift(op.args[n]) for n in ("kernel", "stride", "dilation", "pad"))
    out_h, out_w = ((extent + pad * 2 - dilation * (size - 1) - 1) // stride + 1 for extent in (H, W))
    m = lift(op.args["nhw_step"]) * rows + i
    start = lift(op.args["c_step"]) * columns
    whole = _divides(columns, C)  # a tile has channels of one place of the kernel only
    k = start if whole else start + j
    channel = k % C + j if whole else k % C
    y = m // out_w % out_h * stride + k // C // size * dilation - pad
    x = m % out_w * stride + k // C % size * dilation - pad
    there = None if _divides(columns, size * size * C) else binary("lt", start + j, size * size * C)
    return (m // (out_h * out_w), y, x, channel), there


def _divides(part: Expr, whole: Expr) -> bool:
    a, b = const_int(part), const_int(whole)
    return a is not None and b is not None and a > 0 and b % a == 0


