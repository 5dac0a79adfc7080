"""The on-disk cache: files under content hashes, written atomically, bounded, shared safely between processes."""
from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path

from ..folders import user_cache

VERSION = "1"  # part of every key: raise it when what is stored changes
MAX_BYTES = 512 * 1024 * 1024
_MAGIC = b"tilec1\n"


def cache_directory() -> Path:
    """``TILELANG_CACHE_DIR`` if set, else the platform's cache folder."""
    chosen = os.environ.get("TILELANG_CACHE_DIR")
    if chosen:
        return Path(chosen) / "tilec"
    return user_cache() / "tilec"


def enabled() -> bool:
    return os.environ.get("TILELANG_DISABLE_CACHE", "0") in ("", "0", "false", "False")


def key(*parts: str | bytes) -> str:
    digest = hashlib.sha256(VERSION.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()


def read(name: str) -> bytes | None:
    """The stored bytes, or None if there are none or they are damaged."""
    if not enabled():
        return None
    path = _path(name)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[len(_MAGIC) + 64:]
    if not data.startswith(_MAGIC) or data[len(_MAGIC):len(_MAGIC) + 64] != hashlib.sha256(body).hexdigest().encode():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return body


def write(name: str, body: bytes) -> bool:
    """Store under a name; False where the folder cannot be written (the work goes on without a cache)."""
    if not enabled():
        return False
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(_MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
        os.replace(temporary, path)
    except OSError:  # a full disk
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    _trim(path.parent.parent)
    return True


def _path(name: str) -> Path:
    return cache_directory() / name[:2] / name


def _trim(root: Path) -> None:
    """Remove the entries unused for longest once the cache outgrows MAX_BYTES; looked at rarely."""
    stamp = root / ".trimmed"
    try:
        if stamp.exists() and time.time() - stamp.stat().st_mtime < 600:
            return
        stamp.touch()
        entries = [(p.stat().st_mtime, p.stat().st_size, p) for p in root.glob("??/*") if p.is_file()]
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size
    except OSError:
        return
