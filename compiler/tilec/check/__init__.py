"""Checking: rules over tile programs and API uses; diagnostics as values.

May import ``source, ir, language, evaluate, target``: the standard library alone. Import what you need from
``tilec.check.checker`` (``check_program``, ``check_analysis``), ``.diagnostic``, ``.registry`` and ``.settings``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checker import check_analysis, check_program
    from .diagnostic import Diagnostic
    from .settings import Settings

__all__ = ["Diagnostic", "Settings", "check_analysis", "check_program"]


def __getattr__(name: str) -> Any:
    """Loaded on first use, so that tables (codes, pages) can be read without the rules."""
    if name in ("check_program", "check_analysis"):
        from . import checker

        return getattr(checker, name)
    if name == "Diagnostic":
        from .diagnostic import Diagnostic

        return Diagnostic
    if name == "Settings":
        from .settings import Settings

        return Settings
    raise AttributeError(name)
