"""Name scopes of the symbolic evaluator."""
from __future__ import annotations

from typing import Any

from .values import MISSING


class Scope:
    """A function's, class's or module's names, with the enclosing scope.

    ``open_world``: names may exist that cannot be seen here (a star import of an unknown module), so a missing name
    is unknown rather than undefined. ``plan``: which statements of its body are left out (:mod:`.relevance`).
    """

    __slots__ = ("names", "parent", "kind", "open_world", "global_names", "nonlocal_names", "source", "plan")

    def __init__(self, parent: Scope | None = None, kind: str = "function", source: Any = None):
        self.names: dict[str, Any] = {}
        self.parent = parent
        self.kind = kind
        self.open_world = False
        self.global_names: set[str] = set()
        self.nonlocal_names: set[str] = set()
        self.plan: Any = None
        self.source: Any = source if source is not None else (parent.source if parent else None)

    def snapshot(self) -> Scope:
        """The scope as it is now: what its function assigns later does not show in it."""
        copy = Scope(self.parent, self.kind, self.source)
        copy.names = dict(self.names)
        copy.open_world, copy.global_names, copy.nonlocal_names = self.open_world, self.global_names, self.nonlocal_names
        return copy

    def lookup(self, name: str) -> Any:
        scope: Scope | None = self
        first = True
        while scope is not None:
            # A class body's names are not visible in its methods.
            if first or scope.kind != "class":
                found = scope.names.get(name, MISSING)
                if found is not MISSING:
                    return found
            first = False
            scope = scope.parent
        return MISSING

    def assign(self, name: str, value: Any) -> None:
        self._owner(name).names[name] = value

    def delete(self, name: str) -> None:
        self._owner(name).names.pop(name, None)

    def _owner(self, name: str) -> Scope:
        if name in self.global_names:
            return self.module()
        if name in self.nonlocal_names:
            scope = self.parent
            while scope is not None:
                if name in scope.names and scope.kind != "class":
                    return scope
                scope = scope.parent
        return self

    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def is_open(self) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if scope.open_world:
                return True
            scope = scope.parent
        return False
