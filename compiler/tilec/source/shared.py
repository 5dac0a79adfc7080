"""Files that several others import: parsed once while their text stays the same."""
from __future__ import annotations

from .file import SourceFile

MAX_CHARACTERS = 400_000  # of all texts kept; their trees take some forty times as much memory

_kept: dict[str, SourceFile] = {}  # by path, the one asked for last at the end


def shared_source(path: str, text: str) -> SourceFile:
    """The file with this text, with the tree it was given before."""
    source = _kept.pop(path, None)
    if source is None or source.text != text:
        source = SourceFile(path, text)
    _kept[path] = source
    total = sum(len(s.text) for s in _kept.values())
    while total > MAX_CHARACTERS and len(_kept) > 1:
        total -= len(_kept.pop(next(iter(_kept))).text)
    return source
