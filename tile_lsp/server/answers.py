"""What ``initialize`` was answered with at the last start: the same client asks the same program the same."""
from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

from ..releases.storage import cache_folder, write_atomically

_OF_ONE_SESSION = ("processId", "rootPath", "rootUri", "workspaceFolders", "clientInfo", "locale", "trace", "workDoneToken")
_MOST = 16  # answers kept
_PACKAGES = ("tilec-", "pygls-", "lsprotocol-", "cattrs-")


def key(params: dict[str, Any]) -> str:
    """Of what an answer depends on: what the client can do and wants, and the files of this program."""
    asked = {name: value for name, value in params.items() if name not in _OF_ONE_SESSION}
    text = json.dumps([asked, sys.version, _program()], sort_keys=True).encode()
    return f"{zlib.crc32(text):08x}{zlib.adler32(text):08x}{len(text):x}"


def _program() -> list[Any]:
    """The files that make the answer, and the versions of the packages they use."""
    with os.scandir(Path(__file__).parent) as files:
        own = sorted((f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.name.endswith(".py"))
    packages = []
    for folder in sys.path:
        with contextlib.suppress(OSError):
            packages += [n for n in os.listdir(folder or ".") if n.startswith(_PACKAGES) and n.endswith(".dist-info")]
    return [own, sorted(packages)]


def recall(key: str) -> dict[str, Any] | None:
    try:
        found = json.loads(_file(key).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("capabilities"), dict) else None


def remember(key: str, answer: dict[str, Any]) -> None:
    """What cannot be written is not remembered."""
    with contextlib.suppress(OSError):
        file = _file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        others = sorted(file.parent.glob("*.json"), key=lambda f: f.stat().st_mtime)
        for old in others[:max(len(others) - _MOST + 1, 0)]:
            old.unlink()
        write_atomically(file, json.dumps(answer).encode())


def _file(key: str) -> Path:
    return cache_folder() / "answers" / f"{key}.json"
