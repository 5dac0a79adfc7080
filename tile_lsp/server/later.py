"""Modules that are loaded when something in them is first used: those that the first diagnostics of a file do not need."""
from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def later(name: str) -> Any:
    """A module of :mod:`tile_lsp.ide` by its name; what it has is looked up, and the module loaded, at the first use."""
    return _Later(f"tile_lsp.ide.{name}")
