"""The TileLang a document belongs to and the chips it is checked for."""
from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from tilec.records import dataclass
from tilec.target import chips

from ..releases import discover, manifest
from .preferences import Preferences


@dataclass(frozen=True)
class Environment:
    """``api``: the names of ``version``; ``how``: where that version comes from, one phrase; ``lowest``: the names of the oldest
    release that the project allows, if that is another."""

    api: Any
    version: str
    how: str
    targets: tuple[str, ...] = chips.DECLARED
    lowest: Any = None
    sources: Path | None = None  # the folder of the user's own package ``tilelang``


def for_document(path: str, preferences: Preferences) -> Environment:
    targets = (preferences.target,) if preferences.target else preferences.targets or chips.DECLARED
    return _environment(str(Path(path).parent), preferences.tilelang_version, preferences.interpreter, targets)


@lru_cache(maxsize=64)
def _environment(folder: str, version: str, interpreter: str, targets: tuple[str, ...]) -> Environment:
    if version:
        try:
            api = manifest.load(version)
            return Environment(api, api.version, "chosen in the settings", targets, sources=_sources(interpreter, folder))
        except ValueError:
            pass  # no release number: reported where the setting was read
    finder = discover.Finder(interpreter or None)
    found = finder.find(Path(folder))
    oldest = finder.lowest_allowed(Path(folder)) if found is None or not found.is_tree else None
    version = found.version if found is not None else manifest.latest()
    lowest = manifest.load(oldest) if oldest and oldest != version else None
    if found is not None:
        return Environment(discover.api(found), version, found.how, targets, lowest, found.path)
    return Environment(manifest.load("latest"), version, "the newest release known; none was found", targets, lowest)


def _sources(interpreter: str, folder: str) -> Path | None:
    found = discover.Finder(interpreter or None).find(Path(folder))
    return found.path if found is not None else None


def forget() -> None:
    """Look again: packages may have been installed since."""
    _environment.cache_clear()
