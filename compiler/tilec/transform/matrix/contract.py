"""What the lowering of matrix operations asks of the pass that calls it."""

from __future__ import annotations

from typing import Any, Protocol

from ...analysis.layout import FragmentLayout
from ...ir.buffer import Buffer
from ...ir.expr import Expr, Var
from ...target.chips import Target


class MatrixContext(Protocol):
    """``thread``: the thread's number within the block (a Var or expression); ``threads``: how many there are."""

    @property
    def target(self) -> Target: ...

    @property
    def threads(self) -> int: ...

    @property
    def thread(self) -> Expr: ...

    def decide(self, span: Any, what: str, mechanism: str, reason: str = "") -> None:
        """Record what was chosen for a statement."""

    def layout_of(self, buffer: Buffer) -> FragmentLayout:
        """The layout of a fragment."""

    def registers_of(self, buffer: Buffer) -> Buffer:
        """The one-dimensional register array of a fragment."""

    def fragment_words(self) -> int:
        """32-bit registers of a thread that the kernel's fragments take, all of them together."""

    def is_exact(self, buffer: Buffer) -> bool:
        """Whether tf32 has all numbers in a tile of single precision (``exact.exact_tiles``)."""

    def shared_element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """Where an element of a shared tile lies: the buffer and indices to load from, swizzle applied.

        Sixteen aligned bytes along the last dimension stay together.
        """

    def warpgroup_of(self, value: Expr) -> tuple[Var, bool]:
        """A name for ``value``, the number of a thread's warpgroup, and whether whoever asks must bind it."""

    def tensor_memory_of(self, buffer: Buffer) -> Expr:
        """The tensor memory address (uint32) of a buffer: see ``tensor_memory.address``."""

    def phases_of(self, barriers: Buffer) -> Buffer | None:
        """The phase array of barriers with implicit waits (``barriers.phase_array``), None for others."""
