"""Results of runs, kept per kernel and instance: in memory, and in the user's cache folder for the next session."""
from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..releases.storage import cache_folder
from .digest import digest

VERSION = 1
MOST_RUNS = 50  # of one kernel at one instance on one target
MOST_KEYS = 200  # of one file
MOST_FILES = 500
_KEPT = ("kernel", "instance", "target", "device", "ok", "against", "max_abs_err", "max_rel_err", "latency_ms", "tflops", "gbps", "registers", "smem_bytes", "error",
         "roofline", "occupancy")


def folder() -> Path:
    """Under the user's cache directory."""
    return cache_folder() / "runs"


class History:
    """A file that cannot be read or written costs the past, never the present: runs go on in memory."""

    def __init__(self, place: Callable[[], Path] = folder):
        self._place = place
        self._files: dict[str, dict[str, list[dict[str, Any]]]] = {}

    def add(self, path: str, data: dict[str, Any]) -> None:
        """Remember a run of a kernel of the file ``path``. Several servers may share the folder: one at a time reads and writes."""
        with _alone(self._place()):
            self._add(path, data)

    def _add(self, path: str, data: dict[str, Any]) -> None:
        runs = self._load(path, anew=True)
        entry = {k: data.get(k) for k in _KEPT if data.get(k) is not None}
        entry["time"] = time.time()
        key = _key(data.get("kernel"), data.get("instance"), data.get("target"))
        runs.setdefault(key, []).append(entry)
        del runs[key][:-MOST_RUNS]
        while len(runs) > MOST_KEYS:
            runs.pop(min(runs, key=lambda k: runs[k][-1].get("time", 0)))
        self._save(path, runs)

    def runs(self, path: str, kernel: str, instance: str, target: str = "") -> list[dict[str, Any]]:
        """Earlier runs, oldest first; of every target without ``target``."""
        found = [r for key, entries in self._load(path).items() if key.startswith(_key(kernel, instance, target)) for r in entries]
        return sorted(found, key=lambda r: r.get("time", 0))

    def all(self, path: str) -> list[dict[str, Any]]:
        return sorted((r for entries in self._load(path).values() for r in entries), key=lambda r: r.get("time", 0))

    def clear(self, path: str) -> None:
        self._files[path] = {}
        self._save(path, {})

    def _load(self, path: str, anew: bool = False) -> dict[str, list[dict[str, Any]]]:
        if path in self._files and not anew:
            return self._files[path]
        found = _read(self._file(path))
        if found is not None:  # another server may have added to it; what only this one has (a full disk) stays
            for key, entries in self._files.get(path, {}).items():
                known = {e.get("time") for e in found.get(key, ())}
                found.setdefault(key, []).extend(e for e in entries if e.get("time") not in known)
                found[key].sort(key=lambda e: e.get("time", 0))
            self._files[path] = found
        return self._files.setdefault(path, {})

    def _file(self, path: str) -> Path:
        return self._place() / f"{digest(path)[:24]}.json"

    def _save(self, path: str, runs: dict[str, list[dict[str, Any]]]) -> None:
        file = self._file(path)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            import tempfile  # not at the server's start

            handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as out:
                    json.dump({"version": VERSION, "path": path, "runs": runs}, out)
                os.replace(temporary, file)
            except BaseException:
                os.unlink(temporary)
                raise
            _bound(file.parent)
        except OSError:
            return


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Hold the folder's lock, where there are such things and the folder can be written; it ends with the process in any case."""
    lock = None
    with contextlib.suppress(OSError, ImportError):
        import fcntl

        place.mkdir(parents=True, exist_ok=True)
        lock = open(place / ".lock", "w")  # noqa: SIM115 - held until the end of the block
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if lock is not None:
            lock.close()


def _key(kernel: Any, instance: Any, target: Any) -> str:
    return "\0".join((str(kernel or ""), str(instance or ""), str(target or "")))


def _read(file: Path) -> dict[str, list[dict[str, Any]]] | None:
    """The runs of a file; None where there is none, or what is there is of another version or damaged."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("runs"), dict):
        return None
    return {str(k): [e for e in v if isinstance(e, dict) and isinstance(e.get("time"), (int, float))] for k, v in data["runs"].items() if isinstance(v, list)}


def _bound(place: Path) -> None:
    """The files looked at least recently go."""
    files = list(place.glob("*.json"))
    if len(files) > MOST_FILES:
        for file in sorted(files, key=lambda f: f.stat().st_mtime)[:len(files) - MOST_FILES]:
            file.unlink(missing_ok=True)


def change(earlier: dict[str, Any] | None, now: dict[str, Any]) -> float | None:
    """How much longer (positive) or shorter than the run before it took, as a share; None where one has no time."""
    before = ((earlier or {}).get("latency_ms") or {}).get("median")
    after = (now.get("latency_ms") or {}).get("median")
    if not before or not after:
        return None
    return float(after) / float(before) - 1.0
