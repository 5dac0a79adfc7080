"""Which files a check looks at, and their text."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path

from tilec.records import dataclass
from tilec.source.mentions import WORDS

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


class Absent(Unreadable):
    """There is no file of that name, or what has the name is no file."""


@dataclass(frozen=True, slots=True)
class Text:
    """A file's text, and how to write it back: ``encoding`` as Python calls it (``utf-8-sig`` with a byte order mark)."""

    text: str
    encoding: str = "utf-8"

    def encode(self, text: str) -> bytes:
        return text.encode(self.encoding)


@dataclass
class Found:
    """What looking for files tells besides the files: folders that cannot be listed, files that the configuration leaves out."""

    problems: list[Unreadable] = field(default_factory=list)
    excluded: int = 0


def find_files(
    paths: list[str], config_of: Callable[[Path], Config], force_exclude: bool = False, found: Found | None = None
) -> Iterator[tuple[str, bool]]:
    """The files of the paths in order, each once, and whether the user named the file itself. ``-`` stands for standard input.

    What the configuration excludes is checked all the same where the user names it, except with ``force_exclude``.
    """
    found = found if found is not None else Found()
    seen: set[str] = set()
    for text in paths:
        path = Path(text)
        if text == STDIN or not os.path.isdir(text):
            if force_exclude and text != STDIN and config_of(path.parent).is_excluded(path):
                found.excluded += 1
            elif _is_new(text, seen):
                yield text, True
            continue
        asked_for = not force_exclude and config_of(path).is_excluded(path / "any.py")
        errors: list[OSError] = []
        for folder, names in _walk(text, errors.append):
            config, real = config_of(Path(folder)), os.path.realpath(folder)
            for name in names:
                file = os.path.normpath(os.path.join(folder, name))
                if not asked_for and config.is_excluded(Path(file)):
                    found.excluded += 1
                elif _is_new(file, seen, os.path.join(real, name)):
                    yield file, False
        for error in errors:
            lost = Path(os.path.normpath(error.filename or text))
            if error.errno != errno.ENOENT and (asked_for or not config_of(lost.parent).is_excluded(lost / "any.py")):
                found.problems.append(Unreadable(str(lost), f"cannot be read: {error.strerror or error}"))


def _is_new(path: str, seen: set[str], real: str = "") -> bool:
    """Whether a file was not met yet under any name. ``real``: its path without links, unless it is one itself."""
    key = path if path == STDIN else os.path.realpath(path) if not real or os.path.islink(path) else real
    if key in seen:
        return False
    seen.add(key)
    return True


def _walk(root: str, refused: Callable[[OSError], None]) -> Iterator[tuple[str, list[str]]]:
    """Folders and the names of the files in them that are checked, both in order."""
    for where, folders, files in os.walk(root, onerror=refused):
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
    return read_state(path)[1]


def read_state(path: str) -> tuple[os.stat_result, bytes]:
    """What the system knows of a file, and its bytes. Pipes, sockets and devices are no files: reading them may never end."""
    try:
        state = os.stat(path)
        if not stat.S_ISREG(state.st_mode):
            raise Absent(path, f"is {_kind(state.st_mode)}, not a file (- stands for standard input)")
        with open(path, "rb") as file:
            return state, file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise Absent(path or "''", "no such file or folder") from None
    except OSError as error:
        kind = Absent if error.errno == errno.ELOOP else Unreadable
        raise kind(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise Absent(repr(path), f"cannot be read: {error}") from None


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "something else")


def may_use_language(data: bytes) -> bool:
    """Whether bytes that are no text have a trace of TileLang all the same (UTF-16 is full of NULs)."""
    plain = data.replace(b"\0", b"")
    return any(word.encode() in plain for word in WORDS)


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
