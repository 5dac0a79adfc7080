"""The folder for what can be made again: results of checks, names read from source trees."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from tilec.folders import user_cache


def cache_folder() -> Path:
    """``TILE_LSP_CACHE_DIR`` if set, else ``tile-lsp`` in the platform's cache folder."""
    chosen = os.environ.get("TILE_LSP_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return user_cache() / "tile-lsp"


def read_regular(path: Path, most: int = 16 << 20) -> str:
    """The text of a regular file of a bearable size, "" of anything else: a pipe or a device in a user's folder would be waited for."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode) or state.st_size > most:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def write_atomically(path: Path, data: bytes) -> None:
    """Others see the old file or the new one, never a part. The mode of an existing file is kept; a link stays a link."""
    import tempfile

    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        with contextlib.suppress(OSError):
            os.chmod(name, path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
