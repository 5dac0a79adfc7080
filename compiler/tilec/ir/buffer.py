"""Buffers, regions of buffers, and how the regions of two operands correspond."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.span import Span
from . import dtypes
from .build import const, const_int
from .expr import Const, Expr

# Scopes, spelled as TileLang 0.1.15 spells them (tilelang/language/allocate.py).
GLOBAL = "global"
SHARED_DYN = "shared.dyn"  # T.alloc_shared: dynamic shared memory
SHARED = "shared"  # T.alloc_shared(scope="shared"): static shared memory
FRAGMENT = "local.fragment"  # T.alloc_fragment: a tile spread over the threads' registers
LOCAL = "local"  # T.alloc_local: private to each thread
VAR = "local.var"  # T.alloc_var: one scalar a thread
TMEM = "shared.tmem"  # T.alloc_tmem: Blackwell tensor memory
BARRIER = "shared.barrier"  # T.alloc_barrier: mbarriers, 64 bits each
CLUSTER_BARRIER = "shared.cluster_barrier"
DESCRIPTOR = "local.descriptor"
REDUCER = "local.reducer"  # T.alloc_reducer: partial results without a readable value; attrs reducer_op, replication


@dataclass(eq=False)
class Buffer:
    """A tensor in some memory, identified by the object itself.

    ``shape`` and ``strides`` are integer expressions in elements; ``strides`` None means row-major compact.
    ``view_of`` is the buffer whose storage this one shares (``T.view``, ``T.reshape``), starting ``offset`` elements in.
    ``attrs``: ``arrive_counts`` (BARRIER: one arrival count per barrier, an int, Expr or Unknown each), ``init`` (VAR: first value), ``param_index`` ...
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: str
    scope: str
    span: Span | None = None
    strides: tuple[Expr, ...] | None = None
    view_of: Buffer | None = None
    offset: Expr | None = None
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def all_strides(self) -> tuple[Expr, ...]:
        """Elements between neighbours of each dimension, those of a compact buffer included."""
        if self.strides is not None:
            return self.strides
        strides: list[Expr] = []
        step: Expr = const(1)
        for extent in reversed(self.shape):
            strides.insert(0, step)
            step = step * extent
        return tuple(strides)

    def static_shape(self) -> tuple[int, ...] | None:
        """The extents as integers, or None if one is not a literal."""
        extents = tuple(const_int(e) for e in self.shape)
        return None if any(e is None for e in extents) else extents  # type: ignore[return-value]

    def storage(self) -> Buffer:
        """The buffer that owns the memory."""
        return self if self.view_of is None else self.view_of.storage()

    def size_bytes(self) -> int | None:
        """Bytes of a compact buffer of static shape, rounded up to whole bytes; None if the shape is not static or the type not known."""
        extents = self.static_shape()
        if extents is None or self.dtype == dtypes.UNKNOWN:
            return None
        total = dtypes.bits(self.dtype)
        for extent in extents:
            total *= extent
        return (total + 7) // 8

    def is_shared(self) -> bool:
        return self.scope in (SHARED, SHARED_DYN)

    def __repr__(self) -> str:
        shape = ", ".join(str(const_int(e) if const_int(e) is not None else getattr(e, "name", "?")) for e in self.shape)
        return f"{self.name}: {self.dtype}[{shape}] @ {self.scope}"


@dataclass(frozen=True, eq=False)
class Region:
    """A box of a buffer: ``mins[i] <= index[i] < mins[i] + extents[i]``; one entry per dimension.

    ``form`` tells how the user wrote it: ``whole`` (the buffer's name), ``slice`` (``A[i:i+32, :]``),
    ``corner`` (``A[i, j]``: the extents were taken from the other operand) or ``element`` (one element).
    """

    buffer: Buffer
    mins: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    form: str = "whole"
    span: Span | None = None

    def static_extents(self) -> tuple[int, ...] | None:
        extents = tuple(const_int(e) for e in self.extents)
        return None if any(e is None for e in extents) else extents  # type: ignore[return-value]

    def is_whole(self) -> bool:
        """Whether the region is the complete buffer, as far as can be proven."""
        from .expr import equal

        return all(const_int(m) == 0 for m in self.mins) and all(
            equal(e, s) for e, s in zip(self.extents, self.buffer.shape))

    @property
    def dtype(self) -> str:
        return self.buffer.dtype


def whole(buffer: Buffer, span: Span | None = None) -> Region:
    return Region(buffer, tuple(Const("int32", None, 0) for _ in buffer.shape), tuple(buffer.shape), "whole", span)


def tile_axes(region: Region) -> tuple[int, ...]:
    """The dimensions a tile operator iterates: those whose extent is not the literal 1; all-1 regions have none."""
    return tuple(i for i, e in enumerate(region.extents) if const_int(e) != 1)


def tile_shape(region: Region) -> tuple[Expr, ...]:
    """The extents of :func:`tile_axes`."""
    return tuple(region.extents[i] for i in tile_axes(region))


def index_at(region: Region, position: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The element indices of a region at a position inside its tile (one entry per :func:`tile_axes` dimension)."""
    axes = tile_axes(region)
    assert len(axes) == len(position), (axes, position)
    offset = dict(zip(axes, position))
    return tuple(m + offset[i] if i in offset else m for i, m in enumerate(region.mins))
