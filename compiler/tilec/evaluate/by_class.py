"""What is said of classes, looked up by the class of a value."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ByClass(dict[type, Any]):
    """``table[value.__class__]``: what the first pair says whose class (or one of whose classes) it is or inherits from; None if none does."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]]):
        super().__init__()
        self._pairs = tuple(pairs)

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = next((said for base, said in self._pairs if issubclass(kind, base)), None)
        return found
