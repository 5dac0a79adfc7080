"""Suggestions for misspelt names."""
from __future__ import annotations

import difflib

from .scope import Scope


def suggestion(name: str, scope: Scope) -> str:
    """``; did you mean 'block_M'?`` or nothing."""
    known: set[str] = set()
    current: Scope | None = scope
    while current is not None:
        known.update(current.names)
        current = current.parent
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""
