"""Lowered code as read-only files, for clients that show files alone."""
from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from ..ide.digest import digest
from ..ide.lowered import LoweredView
from ..releases.storage import cache_folder

_KEPT_DAYS = 7


def folder() -> Path:
    """Under the user's cache directory; the only place the server writes to."""
    return cache_folder() / "lowered"


def write_readonly(view: LoweredView) -> Path:
    """Write a view's text atomically; the same text has the same path."""
    import tempfile  # not at the server's start

    path = folder() / digest(f"{view.instance}\0{view.text}")[:12] / view.file_name
    if path.is_file():
        os.utime(path)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(view.text)
        os.chmod(temporary, stat.S_IRUSR | stat.S_IRGRP)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    _remove_old()
    return path


def _remove_old() -> None:
    """What nobody has looked at for days goes."""
    oldest = time.time() - _KEPT_DAYS * 86400
    for file in folder().glob("*/*"):
        try:
            if file.stat().st_mtime < oldest:
                file.unlink()
                file.parent.rmdir()
        except OSError:
            continue
