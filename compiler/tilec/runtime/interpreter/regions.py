"""Regions of buffers as tensors, with which of their elements depend on memory that nothing has written."""

from __future__ import annotations

import torch

from ...ir.buffer import Region, tile_axes
from ...records import dataclass
from .expressions import indices_of, integer
from .memory import compute_dtype, convert
from .state import State
from .taint import Taint


@dataclass(frozen=True)
class Tile:
    """``values`` has one dimension for each tile axis, after one for the threads if ``by_lane``."""

    values: torch.Tensor
    taint: Taint | None = None
    by_lane: bool = False


def is_by_lane(state: State, r: Region) -> bool:
    """Whether each thread has its own such region."""
    if state.lane is None:
        return False
    return state.is_private(r.buffer) or any(i.numel() > 1 and bool((i != i.reshape(-1)[0]).any()) for i in indices_of(state, r.buffer, r.mins, None))


def extents_of(state: State, r: Region) -> list[int]:
    return [integer(state, r.extents[a]) for a in tile_axes(r)]


def box(state: State, r: Region, by_lane: bool = False) -> list[torch.Tensor]:
    """Indices of every element of a region, each broadcasting over its tile axes."""
    axes = tile_axes(r)
    lead = 1 if by_lane else 0
    indices: list[torch.Tensor] = []
    for dim, base in enumerate(indices_of(state, r.buffer, r.mins, None)):
        base = base.to(torch.int64)
        base = base.reshape(-1, *[1] * len(axes)) if by_lane else base.reshape(-1)[0]
        if dim in axes:
            position = axes.index(dim)
            shape = [1] * (lead + len(axes))
            shape[lead + position] = integer(state, r.extents[dim])
            base = base + torch.arange(shape[lead + position]).reshape(shape)
        indices.append(base)
    return indices


def _window(state: State, r: Region) -> tuple[slice | int, ...] | None:
    """The region as Python slices, if it lies inside its compact buffer."""
    if r.buffer.strides is not None or r.buffer.offset is not None:
        return None
    axes = tile_axes(r)
    found: list[slice | int] = []
    for dim, (base, size) in enumerate(zip(indices_of(state, r.buffer, r.mins, None), state.shape(r.buffer))):
        low = int(base.reshape(-1)[0])
        extent = integer(state, r.extents[dim]) if dim in axes else 1
        if low < 0 or low + extent > size:
            return None
        found.append(slice(low, low + extent) if dim in axes else low)
    return tuple(found)


def read(state: State, r: Region, mask: torch.Tensor | None = None) -> Tile:
    """A region's tile; outside a global tensor 0."""
    by_lane = is_by_lane(state, r)
    window = None if by_lane else _window(state, r)
    if window is not None:
        quick = _read_window(state, r, window)
        if quick is not None:
            return Tile(quick)
    indices = box(state, r, by_lane)
    active = _active(state, r, indices, mask if by_lane else None)
    value, taint = state.tainted(lambda: state.load(r.buffer, indices, active, r.span))
    extents = extents_of(state, r)
    shape = [value.shape[0] if value.ndim > len(extents) else 1, *extents] if by_lane else extents
    return Tile(value.expand(shape), None if taint is None else Taint(taint.mask.expand(shape), taint.message, taint.span), by_lane)


def _read_window(state: State, r: Region, window: tuple[slice | int, ...]) -> torch.Tensor | None:
    """Memory of which everything is written, without looking at single elements."""
    storage = state.memory.of(r.buffer)
    owner = storage.source or storage
    if not owner.complete and owner.written is not None:
        owner.complete = bool(owner.written.all())
        if not owner.complete:
            return None
    shape = state.shape(r.buffer)
    return storage.values.view(shape)[window].to(compute_dtype(r.dtype), copy=True)


def _active(state: State, r: Region, indices: list[torch.Tensor], mask: torch.Tensor | None) -> torch.Tensor | None:
    """What of a region lies inside its buffer, for the threads that take part. Tiles may reach over the edge: that is clipped."""
    _, inside = state.address(r.buffer, indices)
    if mask is not None:
        inside = inside & mask.reshape(-1, *[1] * (inside.ndim - 1))
    return None if bool(inside.all()) else inside


def write(state: State, r: Region, tile: Tile, dtype: str, mask: torch.Tensor | None = None) -> None:
    """Convert and write a tile; what lies outside the buffer is dropped."""
    by_lane = tile.by_lane or is_by_lane(state, r)
    value = convert(tile.values, dtype, r.dtype)
    window = None if by_lane or tile.taint is not None else _window(state, r)
    if window is not None:
        _write_window(state, r, window, value)
        return
    indices = box(state, r, by_lane)
    taint = tile.taint
    if by_lane and not tile.by_lane:
        value = value.unsqueeze(0)
        taint = None if taint is None else Taint(taint.mask.unsqueeze(0), taint.message, taint.span)
    state.store(r.buffer, indices, value, _active(state, r, indices, mask if by_lane else None), r.span, taint)


def _write_window(state: State, r: Region, window: tuple[slice | int, ...], value: torch.Tensor) -> None:
    storage = state.memory.of(r.buffer)
    shape = state.shape(r.buffer)
    target = storage.values.view(shape)[window]
    target.copy_(value.expand(target.shape))
    if storage.writer is not None:
        storage.writer.view(shape)[window] = state.statement_id()
    if storage.source is not None:
        places = torch.arange(storage.values.numel()).view(shape)[window].reshape(-1)
        storage.mark(places)
    elif storage.written is not None and not storage.complete:
        storage.written.view(shape)[window] = True


def matrix(state: State, r: Region) -> Tile:
    """A region as a matrix: leading extents are 1."""
    rows, columns = (integer(state, e) for e in r.extents[-2:])
    tile = read(state, r)
    taint = None if tile.taint is None else Taint(tile.taint.mask.reshape(rows, columns), tile.taint.message, tile.taint.span)
    return Tile(tile.values.reshape(rows, columns), taint)
