"""The T surface: what each name is and how a call of it is bound. May import: source, ir.

``import tilec.language as T`` in a program gives the language itself: its names are asked for when they are used, by the JIT.
"""
from __future__ import annotations

from typing import Any

_PARTS = ("kinds", "parameters")  # modules of this package: an import of one asks for the name first


def __getattr__(name: str) -> Any:
    if name.startswith("__") or name in _PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    package = __name__.partition(".")[0]
    served = importlib.import_module(f"{package}.served.language")
    if name in served.__all__:
        return getattr(served, name)
    return importlib.import_module(f"{package}.jit.language").member("tilelang.language", name)
