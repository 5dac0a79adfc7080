"""Tensor maps: what the copy engine is told about a tensor, and the boxes in which a tile is moved.

CUDA driver API, cuTensorMapEncodeTiled: rank 1 to 5, a contiguous innermost dimension, other strides and the start multiples of
16 bytes, boxes of at most 256 elements a dimension, the inner one no wider than the swizzle.
"""
from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer, Region, tile_axes
from ...ir.build import const_int
from ...ir.expr import Call, Expr
from ...ir.stmt import TileOp
from ...records import dataclass
from ..matrix.shared import CanonicalTile, canonical_tile
from ..sizes import is_multiple

_BOX_LIMIT = 256
_ALIGNMENT = 16  # bytes, in the tensor
TILE_ALIGNMENT = 128  # bytes, of a box in shared memory
_SWIZZLES = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class Window:
    """Of a convolution, alike in rows and columns: where its first element may stand beyond the image's first (``lower``) and last (``upper``) pixel."""

    lower: int
    upper: int
    stride: int


@dataclass(frozen=True, slots=True)
class TensorMap:
    """``box``: elements a dimension, in the tensor's order; ``swizzle``: bytes of a row within which 16-byte pieces are exchanged, or 0.
    ``combined``: the type as which elements are combined with those of the tensor, or to which they are rounded; without one they are only moved.
    ``window``: of an image's pixels (im2col mode), where ``box`` is so many pixels of so many channels."""

    buffer: Buffer
    box: tuple[int, ...]
    swizzle: int
    combined: str | None = None
    window: Window | None = None

    @property
    def name(self) -> str:
        return f"{self.buffer.name}_map"

    @property
    def tensor(self) -> Buffer:
        """The parameter whose address the map has."""
        return self.buffer.storage()

    def strides(self) -> tuple[Expr, ...]:
        """In elements, outermost first."""
        return self.buffer.all_strides()

    def address(self) -> Call:
        """The map's address as an operand of a device function."""
        return Call("handle", None, "tensor_map", (), {"map": self})


@dataclass(frozen=True, slots=True)
class Box:
    """One instruction: where it starts in the tile, and in the tensor relative to the region's start."""

    row: int
    column: int


@dataclass(frozen=True, slots=True)
class BulkTile:
    """A tile [rows, columns] in shared memory, ``width`` columns wide panels of which a box moves ``height`` rows."""

    rows: int
    columns: int
    height: int
    width: int
    swizzle: int
    row_axis: int | None  # dimension of the tensor along which rows run; columns run along its last
    rounded: bool = False  # to tf32, on the way

    def boxes(self) -> list[Box]:
        return [Box(r, c) for c in range(0, self.columns, self.width) for r in range(0, self.rows, self.height)]

    def map_of(self, tensor: Buffer) -> TensorMap:
        box = [1] * tensor.ndim
        box[-1] = self.width
        if self.row_axis is not None:
            box[self.row_axis] = self.height
        return TensorMap(tensor, tuple(box), self.swizzle, "tfloat32" if self.rounded else None)


def bulk_layout(tile: Buffer) -> CanonicalTile | None:
    """How a shared tile that bulk copies move is stored: the layouts that wgmma reads where rows are wide enough, else row-major."""
    shape = tile.static_shape()
    if shape is not None and tile.attrs.get("ring"):
        shape = shape[1:]
    if shape is None or len(shape) < 2 or dtypes.bits(tile.dtype) < 8:
        return None
    found = canonical_tile(shape[-2], shape[-1], tile.dtype) if shape[-2] > 1 else None
    return found if found is not None and found.width in _SWIZZLES else None


def bulk_tile(tensor: Region, tile: Region, safe_values: object = ()) -> BulkTile | str:
    """How bulk copies move between a region of a tensor and a whole shared tile, or why they cannot."""
    problem = tensor_problem(tensor, safe_values) or _tile_problem(tensor, tile)
    if problem:
        return problem
    extents = [const_int(tile.extents[i]) or 1 for i in tile_axes(tile)]
    axes = tile_axes(tensor)
    rows, columns = (extents[0], extents[1]) if len(extents) == 2 else (1, extents[0])
    layout = bulk_layout(tile.buffer)
    size = dtypes.bits(tile.dtype) // 8
    width, swizzle = (layout.panel_columns, layout.width) if layout is not None else (columns, 0)
    if width > _BOX_LIMIT or width * size % _ALIGNMENT:
        return f"its rows of {columns * size} bytes are not moved by boxes of at most {_BOX_LIMIT} elements and a multiple of 16 bytes"
    height = next((h for h in range(min(rows, _BOX_LIMIT), 0, -1) if rows % h == 0 and (h % 8 == 0 or h == rows)), None)
    if height is None or (not swizzle and height * columns * size % TILE_ALIGNMENT):
        return f"its {rows} rows cannot be divided into boxes of at most {_BOX_LIMIT} rows and a multiple of {TILE_ALIGNMENT} bytes"
    return BulkTile(rows, columns, height, width, swizzle, axes[0] if len(extents) == 2 else None, bool(tile.buffer.attrs.get("rounded")))


def tensor_problem(tensor: Region, safe_values: object) -> str:
    b = tensor.buffer
    if b.scope != GLOBAL or not (b.view_of is None or _is_other_shape(b)):
        return f"{b.name} is not a tensor parameter"
    if dtypes.bits(b.dtype) not in (8, 16, 32, 64):
        return f"elements of {b.name} have {dtypes.bits(b.dtype)} bits"
    if not 1 <= b.ndim <= 5:
        return f"{b.name} has {b.ndim} dimensions, a tensor map 1 to 5"
    if b in safe_values:  # type: ignore[operator]
        return f"{b.name} has a safe value of its own for reads outside; bulk copies give 0"
    size = dtypes.bits(b.dtype) // 8
    strides = b.all_strides()
    if const_int(strides[-1]) != 1:
        return f"neighbours in the last dimension of {b.name} are not neighbours in memory"
    for k, stride in enumerate(strides[:-1]):
        if const_int(stride) == 0 or not is_multiple(stride, _ALIGNMENT // size if size < _ALIGNMENT else 1):
            known = const_int(stride)
            told = "is not known to be a multiple of 16 bytes" if known is None else f"is {known * size} bytes, no multiple of 16"
            return f"the stride of dimension {k} of {b.name} {told}"
    return ""


def _is_other_shape(b: Buffer) -> bool:
    """Whether a buffer is a compact tensor from its start on, in another shape."""
    tensor = b.storage()
    return b.view_of is tensor and b.strides is None and tensor.strides is None and b.dtype == tensor.dtype and (b.offset is None or const_int(b.offset) == 0)


def _tile_problem(tensor: Region, tile: Region) -> str:
    if tensor.dtype != tile.dtype:
        return f"it converts {tensor.dtype} to {tile.dtype}"
    if not tile.buffer.is_shared() or tile.buffer.view_of is not None or tile.buffer.strides is not None or not covers(tile):
        return f"{tile.buffer.name} is not moved as a whole"
    if tensor.static_extents() is None:
        return f"the extents of the region of {tensor.buffer.name} are not constant"
    mine, theirs = ([const_int(r.extents[i]) for i in tile_axes(r)] for r in (tile, tensor))
    if mine != theirs:
        return f"the regions of {tensor.buffer.name} and {tile.buffer.name} differ in shape"
    if len(mine) not in (1, 2):
        return f"the tile has {len(mine)} dimensions that are not 1"
    if tile_axes(tensor)[-1] != tensor.buffer.ndim - 1:
        return f"the region of {tensor.buffer.name} does not run along its last dimension"
    if any(i < tile.buffer.ndim - 2 for i in tile_axes(tile)) or tile_axes(tile)[-1] != tile.buffer.ndim - 1:
        return f"{tile.buffer.name} is a stack of tiles"
    if len(mine) == 2 and tile_axes(tile)[0] != tile.buffer.ndim - 2:
        return f"{tile.buffer.name} is a stack of tiles"
    if len(mine) == 1 and tile.buffer.ndim >= 2 + bool(tile.buffer.attrs.get("ring")) and const_int(tile.buffer.shape[-2]) != 1:
        return f"{tile.buffer.name} is not moved as a whole"
    return ""


def covers(tile: Region) -> bool:
    """Whether the region is the whole buffer; of a ring or a stack of tiles, one whole tile."""
    first = 1 if tile.buffer.attrs.get("ring") else 0
    if tile.buffer.ndim > 2 and all(const_int(e) == 1 for e in tile.extents[:-2]):
        first = tile.buffer.ndim - 2
    return all(const_int(m) == 0 for m in tile.mins[first:]) and [const_int(e) for e in tile.extents[first:]] == [
        const_int(e) for e in tile.buffer.shape[first:]]


def maps_of(op: TileOp) -> tuple[str, ...]:
    """The names of a bulk operation's copies: numbers, as strings."""
    return tuple(name[3:] for name in op.args if name.startswith("src"))
