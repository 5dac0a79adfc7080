"""Modules that are loaded when something in them is first used: those that the first diagnostics of a file do not need."""
from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


_PAUSE = 0.02  # seconds between two modules: requests come first
_names: list[str] = []


def later(name: str) -> Any:
    """A module of :mod:`tile_lsp.ide` by its name; what it has is looked up, and the module loaded, at the first use."""
    _names.append(f"tile_lsp.ide.{name}")
    return _Later(_names[-1])


async def load_all() -> None:
    """Load them while the user reads the first diagnostics, so that no first request waits for it."""
    for name in _names:
        await asyncio.sleep(_PAUSE)
        import_module(name)
