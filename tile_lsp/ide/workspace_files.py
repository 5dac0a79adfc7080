"""The Python files of a workspace, and which file an import means."""
from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

MOST_FILES = 5000
MOST_BYTES = 1_000_000
_LEFT_OUT = {"node_modules", "__pycache__", "site-packages", "build", "dist", "venv"}


def python_files(roots: Iterable[Path]) -> Iterator[Path]:
    """Files below the roots; hidden folders, virtual environments and build outputs left out."""
    seen: set[str] = set()
    count = 0
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _LEFT_OUT and not os.path.exists(os.path.join(folder, f, "pyvenv.cfg")))
            for name in sorted(files):
                path = os.path.join(folder, name)
                if name.endswith(".py") and path not in seen:
                    seen.add(path)
                    count += 1
                    if count > MOST_FILES:
                        return
                    yield Path(path)


def mentioning(roots: Iterable[Path], *words: str) -> list[Path]:
    """Files that contain all of the words."""
    return [p for p in python_files(roots) if all(w in text_of(p) for w in words)]


def text_of(path: Path) -> str:
    """A file's text, "" where it cannot be read; kept as long as the file does not change."""
    try:
        state = path.stat()
        is_text = stat.S_ISREG(state.st_mode) and state.st_size <= MOST_BYTES  # a pipe named like a module would be waited for
        return _text(str(path), state.st_mtime_ns, state.st_size) if is_text else ""
    except OSError:
        return ""


@lru_cache(maxsize=1024)
def _text(path: str, changed: int, size: int) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def imported_files(importer: str, statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> list[tuple[Path, str | None]]:
    """The files an imported name may be defined in, with the name there; None for the module itself."""
    if isinstance(statement, ast.Import):
        return [(p, None) for p in module_files(importer, alias.name, 0)]
    module = statement.module or ""
    inside = [(p, alias.name) for p in module_files(importer, module, statement.level)]
    as_module = f"{module}.{alias.name}" if module else alias.name
    return [*inside, *((p, None) for p in module_files(importer, as_module, statement.level))]  # type: ignore[list-item]


def module_files(importer: str, name: str, level: int) -> list[Path]:
    """Existing files of a module as an import statement of a file means it."""
    folder = Path(importer).parent
    if level:
        for _ in range(level - 1):
            folder = folder.parent
        bases = [folder]
    else:
        bases = [folder, *_roots(folder)]
    found: list[Path] = []
    for base in bases:
        target = base.joinpath(*name.split(".")) if name else base
        found += [p for p in ((target.with_suffix(".py") if name else None), target / "__init__.py") if p is not None and p.is_file()]
    return list(dict.fromkeys(found))


def _roots(folder: Path) -> list[Path]:
    """Folders above where absolute imports start."""
    found: list[Path] = []
    current = folder
    while current.parent != current and len(found) < 12:
        current = current.parent
        found.append(current)
        if any((current / marker).exists() for marker in ("pyproject.toml", "setup.py", ".git")):
            found.append(current / "src")
            break
    return found
