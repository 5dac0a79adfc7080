"""Results of earlier checks on disk: one SQLite file, shared by processes, bounded, and nothing that a check depends on.

A result belongs to a file's path and a context (settings, versions, this tool). It is used if the file and every file that
was read or looked for on the way are as they were: same size and time of change, else same content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tilec.records import dataclass

from .result import FileResult, Packed, unpack

NAME = "check.sqlite"
MAX_BYTES = 64 * 1024 * 1024
_FORMAT = 1
_FRESH_NS = 2_000_000_000  # a file changed less than this before it was read may change again without a new time
_DAY = 86_400
_TABLE = """CREATE TABLE IF NOT EXISTS results (path TEXT, context TEXT, size INTEGER, time INTEGER, digest TEXT,
    dependencies TEXT, payload TEXT, crc INTEGER, used INTEGER, PRIMARY KEY (path, context))"""

State = tuple[int, int]  # size, time of change


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when it was read. ``digest`` is "" for one that was looked for and not there."""

    path: str
    size: int = -1
    time: int = -1
    digest: str = ""


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def seen(path: str, state: os.stat_result | None, data: bytes | None) -> Seen:
    if state is None or data is None:
        return Seen(path)
    settled = time.time_ns() - state.st_mtime_ns > _FRESH_NS
    return Seen(path, state.st_size, state.st_mtime_ns if settled else -1, digest_of(data))


def _dependencies_text(dependencies: Iterable[Seen]) -> str:
    return json.dumps([[d.path, d.size, d.time, d.digest] if d.digest else [d.path] for d in dependencies], separators=(",", ":"))


class Cache:
    """Never raises: what cannot be read is not there, what cannot be written is left."""

    def __init__(self, folder: Path):
        self.path = folder / NAME
        self._states: dict[str, State | None] = {}
        self._digests: dict[str, str] = {}
        self._touched: list[tuple[str, str]] = []
        self._renewed: list[tuple[int, str, int, str, str]] = []  # rows whose times can now be trusted
        self._db: Any = self._open()

    def _open(self) -> Any:
        import sqlite3

        self._error = sqlite3.Error
        for _ in range(2):
            db = None
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                db = sqlite3.connect(self.path, timeout=1.0)
                if db.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
                    db.execute("DROP TABLE IF EXISTS results")
                    db.execute(_TABLE)
                    db.execute(f"PRAGMA user_version = {_FORMAT}")
                    db.commit()
                return db
            except sqlite3.OperationalError:  # locked, or the folder cannot be written
                break
            except sqlite3.DatabaseError:  # not a database, or a damaged one
                with contextlib.suppress(OSError):
                    if db is not None:
                        db.close()
                    self.path.unlink()
            except OSError:
                break
        return None

    # -- reading ---------------------------------------------------------------------------------------------------
    def get(self, path: str, context: str) -> FileResult | None:
        """The result for a file as it is now."""
        if self._db is None:
            return None
        absolute = os.path.abspath(path)
        try:
            row = self._db.execute(
                "SELECT size, time, digest, dependencies, payload, crc, used FROM results WHERE path = ? AND context = ?", (absolute, context)
            ).fetchone()
        except self._error as error:
            self._give_up(error)
            return None
        if row is None:
            return None
        size, when, digest, dependencies, payload, crc, used = row
        try:
            if zlib.crc32(f"{dependencies}{payload}".encode()) != crc:
                return None
            found = [Seen(absolute, size, when, digest), *(Seen(*d) for d in json.loads(dependencies))]
            if not all(self._unchanged(s) for s in found):
                return None
            result = unpack(path, json.loads(payload))
        except (ValueError, TypeError, KeyError, IndexError):
            return None
        if used < time.time() - _DAY:
            self._touched.append((absolute, context))
        self._renew(found, context, payload)
        return result

    def _renew(self, found: list[Seen], context: str, payload: str) -> None:
        """Files that had to be read to see that they are the same need not be read next time."""
        now = [self._settled(s) for s in found]
        if now != found:
            needed = _dependencies_text(now[1:])
            self._renewed.append((now[0].time, needed, zlib.crc32(f"{needed}{payload}".encode()), now[0].path, context))

    def _settled(self, s: Seen) -> Seen:
        state = self._state(s.path)
        if state is None or state[1] == s.time or time.time_ns() - state[1] <= _FRESH_NS:
            return s
        return Seen(s.path, s.size, state[1], s.digest)

    def _unchanged(self, s: Seen) -> bool:
        state = self._state(s.path)
        if state is None or not s.digest:
            return state is None and not s.digest
        if state == (s.size, s.time):
            return True
        return state[0] == s.size and self._digest(s.path) == s.digest

    def _state(self, path: str) -> State | None:
        if path not in self._states:
            try:
                found = os.stat(path)
                self._states[path] = (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None
            except OSError:
                self._states[path] = None
        return self._states[path]

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            try:
                with open(path, "rb") as file:
                    self._digests[path] = digest_of(file.read())
            except OSError:
                self._digests[path] = ""
        return self._digests[path]

    # -- writing ---------------------------------------------------------------------------------------------------
    def put(self, fresh: Iterable[tuple[str, Seen, list[Seen], Packed]]) -> None:
        """Keep results: context, the file, what it depends on, the packed result."""
        rows = []
        now = int(time.time())
        for context, own, dependencies, packed in fresh:
            needed = _dependencies_text(dependencies)
            payload = json.dumps(packed, separators=(",", ":"))
            crc = zlib.crc32(f"{needed}{payload}".encode())
            rows.append((own.path, context, own.size, own.time, own.digest, needed, payload, crc, now))
        if not (rows or self._touched or self._renewed):
            return
        self._db = self._db or self._open()
        if self._db is None:
            return
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                self._db.executemany(f"UPDATE results SET used = {now} WHERE path = ? AND context = ?", self._touched)
                self._db.executemany("UPDATE results SET time = ?, dependencies = ?, crc = ? WHERE path = ? AND context = ?", self._renewed)
            self._bound()
        except (self._error, OSError) as error:
            self._give_up(error)

    def _bound(self) -> None:
        """Past the limit the half that was not used for longest goes."""
        if self.path.stat().st_size <= MAX_BYTES:
            return
        with self._db:
            self._db.execute(
                "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results ORDER BY used LIMIT (SELECT COUNT(*) / 2 + 1 FROM results))"
            )
        self._db.execute("VACUUM")

    def _give_up(self, error: Exception) -> None:
        """Another process holds the file for long, or the disk is full: go on without. A damaged file is made anew next time."""
        import sqlite3

        self.close()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            with contextlib.suppress(OSError):
                self.path.unlink()

    def close(self) -> None:
        if self._db is not None:
            with contextlib.suppress(Exception):
                self._db.close()
            self._db = None
