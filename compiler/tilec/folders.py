"""Where this platform keeps what can be made again."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def user_cache() -> Path:
    """The user's cache folder, always absolute.

    On Linux ``XDG_CACHE_HOME``, else ``~/.cache``; an empty or a relative value counts as unset, as the XDG Base Directory
    Specification (version 0.8, "Environment variables") wants it: else caches would appear in whatever folder one works in.
    """
    if sys.platform == "win32":
        return _absolute("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return _absolute("XDG_CACHE_HOME") or Path.home() / ".cache"


def _absolute(variable: str) -> Path | None:
    path = Path(os.environ.get(variable, ""))
    return path if path.is_absolute() else None
