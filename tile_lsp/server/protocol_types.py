"""The protocol's 550 classes, each made when it is first used.

lsprotocol defines them with attrs, which writes and compiles the methods of all of them at each start: half of the server's start, and a session uses
a fifth. Imported through :func:`load`, a class stays as it was written until somebody makes an instance or asks for its fields; then attrs makes it
what it would have been. The type hints of a class, which lsprotocol resolves for all classes at once, are resolved at the same time.
"""
from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import Any

import attrs

_NAME, _RESOLVED = "lsprotocol.types", "_resolved_forward_references"
_define = attrs.define
_lock = threading.RLock()


def load() -> None:
    """Import the classes that way, where nobody has imported them before; ``TILE_LSP_PROTOCOL_AT_ONCE=1`` leaves everything to lsprotocol."""
    if _NAME in sys.modules or os.environ.get("TILE_LSP_PROTOCOL_AT_ONCE", "0") not in ("", "0"):
        return
    attrs.define = _postpone  # type: ignore[assignment]
    try:
        importlib.import_module(_NAME)
    finally:
        attrs.define = _define
    hooks = importlib.import_module("lsprotocol._hooks")
    if hasattr(hooks, _RESOLVED):  # else this lsprotocol resolves all of them, which makes all of them
        setattr(hooks, _RESOLVED, True)  # class by class, when it is made


class _Fields:
    """``__attrs_attrs__`` of a class that is still to be made."""

    def __get__(self, instance: Any, owner: type) -> Any:
        return _make(owner).__attrs_attrs__  # type: ignore[attr-defined]


def _postpone(cls: type) -> type:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        _make(cls)
        type(self).__init__(self, *args, **kwargs)

    cls.__init__ = __init__  # type: ignore[misc]
    if "__repr__" not in cls.__dict__:
        cls.__repr__ = _shown  # type: ignore[assignment]  # attrs leaves it: one method less to write
    cls.__attrs_attrs__ = _Fields()  # type: ignore[attr-defined]
    return cls


def _shown(self: Any) -> str:
    """As attrs would show it."""
    return f"{type(self).__qualname__}({', '.join(f'{a.name}={getattr(self, a.name)!r}' for a in type(self).__attrs_attrs__ if a.repr)})"


def _make(cls: type) -> type:
    """The same class, with what attrs adds to it. Whoever comes meanwhile, from another thread, waits."""
    with _lock:
        if isinstance(cls.__dict__.get("__attrs_attrs__"), _Fields):
            _define(cls, slots=False, init=True, field_transformer=_resolved)  # with slots it would be another class
    return cls


def _resolved(cls: type, fields: list[Any]) -> list[Any]:
    from lsprotocol import types

    attrs.resolve_types(cls, types.ALL_TYPES_MAP, {}, attribs=fields)
    return fields
