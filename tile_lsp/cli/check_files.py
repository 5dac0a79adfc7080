"""Which files a check looks at, and their text."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .config import Config

SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv"}


@dataclass(frozen=True)
class Unreadable(Exception):
    """A file that cannot be checked; the text says why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def find_files(paths: list[str], config: Config) -> Iterator[tuple[Path, bool]]:
    """The Python files of the paths in order, and whether the user named the file itself. ``-`` stands for standard
    input."""
    seen: set[Path] = set()
    for text in paths:
        path = Path(text)
        if text == "-" or not path.is_dir():
            yield path, True
            continue
        asked_for = config.is_excluded(path / "any.py")  # an excluded folder named by the user is checked all the same
        for file in _walk(path):
            if file not in seen and (asked_for or not config.is_excluded(file)):
                seen.add(file)
                yield file, False


def _walk(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            f
            for f in folders
            if not f.startswith(".") and f not in SKIPPED and not (Path(where) / f / "pyvenv.cfg").is_file()
        )
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(where) / name


def read_text(path: Path) -> str:
    """A file's text. Raises Unreadable with a reason for people."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise Unreadable(str(path), "no such file or folder") from None
    except OSError as error:
        raise Unreadable(str(path), f"cannot be read: {error.strerror or error}") from None
    if b"\0" in data[:4096]:
        raise Unreadable(str(path), "is a binary file, not Python source")
    try:
        return decode(data)
    except (UnicodeDecodeError, LookupError, SyntaxError):
        raise Unreadable(str(path), "is not text in UTF-8 or in the encoding it declares") from None


def decode(data: bytes) -> str:
    """Text in UTF-8, or in what a ``coding:`` comment of the first two lines names."""
    head = b"\n".join(data.split(b"\n", 2)[:2])
    if b"coding" in head:
        import io
        import tokenize

        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    return data.decode("utf-8-sig")
