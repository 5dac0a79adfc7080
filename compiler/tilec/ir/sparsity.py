"""2:4 structured sparsity: which elements of a row are kept, and how their positions are written down.

A row is cut into groups of four 16- or 8-bit elements, of which two are kept, or of two 32-bit ones, of which one is. Each group has
four bits of metadata, the first group's in the lowest bits: two positions of two bits, in units of 16 bits where elements have 32
(PTX ISA, "Sparse matrix storage").
"""
from __future__ import annotations

from ..records import dataclass
from . import dtypes

BITS_PER_GROUP = 4


@dataclass(frozen=True)
class Sparsity:
    """``kept`` of ``group`` elements."""

    kept: int
    group: int

    def field(self, stored: int) -> int:
        """The bit of a row's metadata at which the position of its ``stored``-th kept element begins."""
        return stored * BITS_PER_GROUP // self.kept

    @property
    def unit(self) -> int:
        """What the two bits of a position count in, in parts of an element: its halves are written for 32-bit ones."""
        return 2 if self.kept == 1 else 1


def sparsity_of(dtype: str) -> Sparsity | None:
    """How a matrix of such elements is sparse; None for types that have no such form."""
    if dtype == dtypes.UNKNOWN:
        return None
    return {8: Sparsity(2, 4), 16: Sparsity(2, 4), 32: Sparsity(1, 2)}.get(dtypes.bits(dtype))


def metadata_factor(dtype: str, metadata: str) -> int | None:
    """How many elements of a row one word of metadata describes."""
    form = sparsity_of(dtype)
    if form is None or metadata == dtypes.UNKNOWN or not dtypes.is_int(metadata):
        return None
    return dtypes.bits(metadata) // BITS_PER_GROUP * form.group
