"""The TileLang a document belongs to and the chips it is checked for."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilec.target import chips

from ..releases import discover, manifest
from .preferences import Preferences


@dataclass(frozen=True)
class Environment:
    """``api``: the names of ``version``; ``how``: where that version comes from, one phrase."""

    api: Any
    version: str
    how: str
    targets: tuple[str, ...] = chips.DECLARED


def for_document(path: str, preferences: Preferences) -> Environment:
    return _environment(str(Path(path).parent), preferences.tilelang_version, preferences.interpreter, preferences.target)


@lru_cache(maxsize=64)
def _environment(folder: str, version: str, interpreter: str, target: str) -> Environment:
    targets = (target,) if target else chips.DECLARED
    if version:
        try:
            api = manifest.load(version)
            return Environment(api, api.version, "chosen in the settings", targets)
        except ValueError:
            pass  # no release number: reported where the setting was read
    found = discover.find(Path(folder), interpreter or None)
    if found is not None:
        return Environment(discover.api(found), found.version, found.how, targets)
    return Environment(manifest.load("latest"), manifest.latest(), "the newest release known; none was found", targets)


def forget() -> None:
    """Look again: packages may have been installed since."""
    _environment.cache_clear()
