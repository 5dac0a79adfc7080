"""tilec: a front end, checker and compiler for the TileLang tile-kernel language.

``import tilec`` and ``import tilec.language as T`` give what ``import tilelang`` and ``import tilelang.language as T`` give with TileLang:
``tilec.jit``, ``tilec.compile``, ``tilec.autotune``, ... They are loaded when they are first asked for.
"""
from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    if name in ("jit", "language"):  # modules that are also what TileLang calls so
        return importlib.import_module(f"{__name__}.{name}")
    top = importlib.import_module(f"{__name__}.served.top")
    if name not in top.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(top, name)
