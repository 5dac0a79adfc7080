"""Layouts that a user writes down: the values of annotate_layout and loop_layout."""
from __future__ import annotations

from typing import Any

from ..records import dataclass
from .buffer import Buffer
from .expr import Expr, Var


@dataclass(eq=False, repr=False)
class LayoutValue:
    """``kind``: ``layout``, ``fragment`` or ``swizzled`` (a helper's; ``buffer``: the one it was made for).

    ``shape`` None: not known. ``thread`` and ``index``: what the functions gave for ``variables`` (and ``replica``), None where
    that is not known. ``replicate``: how many threads hold each element.
    """

    kind: str
    shape: tuple[Any, ...] | None = None
    buffer: Buffer | None = None
    variables: tuple[Var, ...] = ()
    replica: Var | None = None
    thread: Expr | None = None
    index: tuple[Expr, ...] | None = None
    replicate: int = 1
    name: str = ""
