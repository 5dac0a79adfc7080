"""What a row of the table is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...source.span import Span
from ..context import RuleContext

Pattern = Callable[[RuleContext], Iterator[Span | None]]  # the places of a tile program that a defect hits


class Defect:
    """``first`` and ``last``: the releases that have it; ``last`` None: no release is without it yet."""

    __slots__ = ("number", "first", "last", "effect", "instead", "pattern")

    def __init__(self, number: int, first: str, last: str | None, effect: str, instead: str, pattern: Pattern):
        self.number = number
        self.first = first
        self.last = last
        self.effect = effect
        self.instead = instead
        self.pattern = pattern
