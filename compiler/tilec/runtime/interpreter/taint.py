"""Values that depend on memory nothing has written. They are followed until they matter, as memcheck tools do.

Copying or computing with such a value is harmless as long as nothing comes of it: the padding of a tile is often computed
on and never stored. A fault is reported where the value reaches global memory, decides control flow or becomes an index.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ...records import dataclass
from ...source.span import Span


@dataclass(frozen=True, eq=False)
class Taint:
    """``mask``: the iterations (or elements) whose value is meaningless; ``message``, ``span``: the read that made it so."""

    mask: torch.Tensor
    message: str
    span: Span | None


def union(taints: Iterable[Taint]) -> Taint | None:
    """All of them as one, told by the first."""
    found: Taint | None = None
    for taint in taints:
        found = taint if found is None else Taint(found.mask | taint.mask, found.message, found.span)
    return found


def over(taint: Taint | None, mask: torch.Tensor) -> Taint | None:
    """The same reason for other elements."""
    return None if taint is None else Taint(mask, taint.message, taint.span)
