"""A sparse matrix operand, written out."""
from __future__ import annotations

import torch

from ...ir import dtypes
from ...ir.sparsity import metadata_factor, sparsity_of
from ...ir.stmt import TileOp
from .memory import Unsupported
from .regions import Tile
from .taint import Taint


def dense(a: Tile, metadata: Tile, dtype: str, metadata_dtype: str, op: TileOp) -> Tile:
    """The matrix whose kept elements are ``a``. Where meaningless metadata decide, the whole group has no meaning."""
    form, factor = sparsity_of(dtype), metadata_factor(dtype, metadata_dtype)
    rows, half = a.values.shape
    if form is None or factor is None or list(metadata.values.shape) != [rows, 2 * half // factor]:
        raise Unsupported(f"T.{op.op} of {list(a.values.shape)} {dtype} with metadata {list(metadata.values.shape)} {metadata_dtype}", op.span)
    stored = torch.arange(half)
    bits = torch.tensor([form.field(s) for s in range(half)])
    size = dtypes.bits(metadata_dtype)
    words = metadata.values.to(torch.int64)[:, bits // size]
    columns = stored // form.kept * form.group + ((words >> (bits % size)) & 3) // form.unit
    values = torch.zeros(rows, 2 * half, dtype=a.values.dtype).scatter_add_(1, columns, a.values)
    return Tile(values, _taint(a, metadata, columns, bits // size, form.kept, 2 * half))


def _taint(a: Tile, metadata: Tile, columns: torch.Tensor, words: torch.Tensor, kept: int, width: int) -> Taint | None:
    found: Taint | None = None
    mask = torch.zeros(columns.shape[0], width, dtype=torch.bool)
    if a.taint is not None:
        mask[torch.arange(columns.shape[0])[:, None], columns] = a.taint.mask.expand(columns.shape)
        found = a.taint
    if metadata.taint is not None:
        per_element = metadata.taint.mask.expand(metadata.values.shape)[:, words]
        mask |= per_element.repeat_interleave(width // per_element.shape[1], dim=1)
        found = metadata.taint
    return None if found is None else Taint(mask, found.message, found.span)
