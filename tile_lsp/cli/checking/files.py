"""Which files a check looks at, and their text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...ide.project import Config

STDIN = "-"
SUFFIXES = (".py", ".ipynb")
SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "venv"}


@dataclass(frozen=True)
class Unreadable(Exception):
    """A file that cannot be checked; the text says why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, and how to write it back: ``encoding`` as Python calls it (``utf-8-sig`` with a byte order mark)."""

    text: str
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding)


def find_files(paths: list[str], config_of: Callable[[Path], Config], force_exclude: bool = False) -> Iterator[tuple[str, bool]]:
    """The files of the paths in order, and whether the user named the file itself. ``-`` stands for standard input.

    What the configuration excludes is checked all the same where the user names it, except with ``force_exclude``.
    """
    seen: set[str] = set()
    for text in paths:
        path = Path(text)
        if text == STDIN or not os.path.isdir(text):
            excluded = force_exclude and text != STDIN and config_of(path.parent).is_excluded(path)
            if text not in seen and not excluded:
                seen.add(text)
                yield text, True
            continue
        asked_for = not force_exclude and config_of(path).is_excluded(path / "any.py")
        for folder, names in _walk(text):
            config = config_of(Path(folder))
            for name in names:
                file = os.path.normpath(os.path.join(folder, name))
                if file not in seen and (asked_for or not config.is_excluded(Path(file))):
                    seen.add(file)
                    yield file, False


def _walk(root: str) -> Iterator[tuple[str, list[str]]]:
    """Folders and the names of the files in them that are checked, both in order."""
    for where, folders, files in os.walk(root):
        folders[:] = sorted(
            f for f in folders if not f.startswith(".") and f not in SKIPPED and not os.path.isfile(os.path.join(where, f, "pyvenv.cfg"))
        )
        names = sorted(f for f in files if f.endswith(SUFFIXES))
        if names:
            yield where, names


def read_text(path: str | Path) -> str:
    """A file's text. Raises Unreadable with a reason for people."""
    return read(str(path)).text


def read(path: str) -> Text:
    if path == STDIN:
        data = sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()
        return decode(data, "standard input")
    return decode(read_bytes(path), path)


def read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise Unreadable(path or "''", "no such file or folder") from None
    except OSError as error:
        raise Unreadable(path, f"cannot be read: {error.strerror or error}") from None


def decode(data: bytes, path: str) -> Text:
    """Text in UTF-8, or in what a ``coding:`` comment of the first two lines names. Raises Unreadable."""
    if b"\0" in data[:4096]:
        raise Unreadable(path, "is a binary file, not Python source")
    head = b"\n".join(data.split(b"\n", 2)[:2])
    encoding = "utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else "utf-8"
    try:
        if b"coding" in head:
            import io
            import tokenize

            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return Text(data.decode(encoding), encoding)
    except (UnicodeDecodeError, LookupError, SyntaxError):
        raise Unreadable(path, "is not text in UTF-8 or in the encoding it declares") from None
