"""The manifest of a TileLang source tree: read from its sources once, then kept on disk until they change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from . import manifest
from .manifest import Entry, Manifest
from .static_names import pass_config_keys, read_package
from .storage import cache_folder, write_atomically

_FORMAT = "1"
_KEPT = 8  # trees


def fingerprint(package: Path, version: str) -> str:
    """Changes whenever a source file of the package's language does, or what this tool makes of them."""
    digest = hashlib.sha256(f"{_FORMAT}\0{package}\0{version}\0{manifest.latest()}".encode())
    for root in ("language", "cuda/language"):
        for where, folders, files in os.walk(package / root):
            folders.sort()
            for name in sorted(files):
                if name.endswith(".py"):
                    path = os.path.join(where, name)
                    with contextlib.suppress(OSError):
                        state = os.stat(path)
                        digest.update(f"{path}\0{state.st_mtime_ns}\0{state.st_size}\0".encode())
    return digest.hexdigest()[:32]


def load(package: Path, version: str) -> Manifest:
    """The names that the package at ``package`` (the folder ``tilelang``) exports."""
    folder = cache_folder() / "trees"
    kept = folder / f"{fingerprint(package, version)}.json"
    found = _read(kept, package, version)
    if found is None:
        found = read_package(package, version)
        if found is None:
            return manifest.load(version)
        with contextlib.suppress(OSError):
            _write(kept, found)
    return found


def _read(path: Path, package: Path, version: str) -> Manifest | None:
    """None if there is nothing, or nothing that makes sense."""
    try:
        data = json.loads(path.read_bytes())
        near = manifest.load(version)
        keys = pass_config_keys(package) or near.pass_config_keys
        return Manifest(version, _entries(data["language"]), _entries(data["top_level"]), near.elsewhere_in, keys, str(package))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _entries(table: dict[str, list[Any]]) -> dict[str, Entry]:
    return {name: Entry(str(kind), str(module), signature, bool(incidental)) for name, (kind, module, signature, incidental) in table.items()}


def _write(path: Path, found: Manifest) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"language": found.language, "top_level": found.top_level}, separators=(",", ":")).encode())
    others = sorted(path.parent.glob("*.json"), key=lambda p: p.stat().st_mtime)
    for old in others[:-_KEPT]:
        old.unlink(missing_ok=True)
