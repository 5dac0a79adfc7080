"""Places in the sources of a TileLang: where an exported name is defined. The sources are read, never imported."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from tilec.records import dataclass

from .storage import read_regular

_MOST_FILES = 3000


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int  # from 1, columns too
    column: int
    name: str


@lru_cache(maxsize=512)
def locate(package: Path, module: str, name: str) -> Place | None:
    """The definition of ``name``, which ``module`` exports. ``package``: the folder ``tilelang``."""
    first = [p for p in _files_of(package, module) if p.is_file()]
    for path in first:
        found = _in_file(path, name)
        if found is not None:
            return found
    language = package / "language"
    for folder in (language, package):
        for path in sorted(folder.rglob("*.py"))[:_MOST_FILES]:
            if path not in first and "ascend" not in path.parts:
                found = _in_file(path, name, only_definitions=True)
                if found is not None:
                    return found
    return None


def _files_of(package: Path, module: str) -> list[Path]:
    parts = module.split(".")
    if not parts or parts[0] != "tilelang":
        return []
    base = package.joinpath(*parts[1:])
    return [base.with_suffix(".py"), base / "__init__.py"] if len(parts) > 1 else [package / "__init__.py"]


def _in_file(path: Path, name: str, only_definitions: bool = False) -> Place | None:
    """A ``def`` or ``class``, else an assignment at the margin."""
    text = read_regular(path)
    if name not in text:
        return None
    escaped = re.escape(name)
    patterns = [rf"^(?:async\s+)?(?:def|class)\s+({escaped})\b"]
    if not only_definitions:
        patterns.append(rf"^({escaped})\s*(?::[^=\n]+)?=(?!=)")
    for pattern in patterns:
        match = re.search(pattern, text, re.MULTILINE)
        if match:
            line = text.count("\n", 0, match.start(1)) + 1
            return Place(path, line, match.start(1) - text.rfind("\n", 0, match.start(1)), name)
    return None
