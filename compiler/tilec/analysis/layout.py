"""Fragment layouts: which thread holds which element of a tile, in which register.

A layout is a list of digits. Each digit takes ``(index[dim] // stride) % extent`` of one dimension of the tile and
adds it, times ``scale``, to the thread number or to the register number. ``replicas`` are digits of the thread
number that depend on no index: the element is held by that many threads. For every dimension the digits, ordered by
stride, must cover it gap-free (``stride`` of each is the product of the extents below), so that layouts are
bijections (up to replication) by construction and both directions are simple arithmetic.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..records import dataclass

THREAD, REGISTER = "thread", "register"


@dataclass(frozen=True, slots=True)
class Digit:
    dim: int
    extent: int
    stride: int  # in elements of the dimension
    axis: str  # THREAD or REGISTER
    scale: int  # weight in the thread or register number


@dataclass(frozen=True, slots=True)
class Replica:
    extent: int
    scale: int  # weight in the thread number


@dataclass(frozen=True)
class FragmentLayout:
    """``shape``: the tile's extents; the digits of a dimension may cover more (padding, guarded when iterated)."""

    shape: tuple[int, ...]
    digits: tuple[Digit, ...]
    replicas: tuple[Replica, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: layouts are keys of what inference has worked out."""
        return hash((self.shape, self.digits, self.replicas))

    def thread_of(self, index: Sequence[Any], replica: Any = 0) -> Any:
        """Thread number of an element (ints or expressions); ``replica`` counts the copies."""
        total: Any = 0
        for r in self.replicas:
            total = total + (replica % r.extent) * r.scale
            replica = replica // r.extent
        return total + self._sum(index, THREAD)

    def register_of(self, index: Sequence[Any]) -> Any:
        """Register number of an element within the thread that holds it."""
        return self._sum(index, REGISTER)

    def _sum(self, index: Sequence[Any], axis: str) -> Any:
        total: Any = 0
        for d in self.digits:
            if d.axis == axis:
                total = total + ((index[d.dim] // d.stride) % d.extent) * d.scale
        return total

    def index_of(self, thread: Any, register: Any) -> tuple[Any, ...]:
        """The element that a thread holds in a register: the inverse of the two above (ints or expressions)."""
        index: list[Any] = [0] * len(self.shape)
        for d in self.digits:
            number = thread if d.axis == THREAD else register
            index[d.dim] = index[d.dim] + ((number // d.scale) % d.extent) * d.stride
        return tuple(index)

    @property
    def registers(self) -> int:
        """Registers (elements) a thread needs."""
        return 1 + sum((d.extent - 1) * d.scale for d in self.digits if d.axis == REGISTER)

    @property
    def threads(self) -> int:
        """Threads taking part, replicas included."""
        return (1 + sum((d.extent - 1) * d.scale for d in self.digits if d.axis == THREAD)
                + sum((r.extent - 1) * r.scale for r in self.replicas))

    def covered(self) -> tuple[int, ...]:
        """What the digits cover of each dimension: at least ``shape``."""
        cover = [1] * len(self.shape)
        for d in self.digits:
            cover[d.dim] *= d.extent
        return tuple(cover)

    def is_padded(self) -> bool:
        return self.covered() != self.shape
