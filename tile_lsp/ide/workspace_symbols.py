"""Kernels of a whole workspace by name, without evaluating the files."""
from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from tilec.evaluate.definitions import find_definitions
from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.mentions import mentions_language
from tilec.source.span import Span

from .workspace_files import python_files, text_of

_MOST = 500


@dataclass(frozen=True)
class Found:
    name: str
    container: str
    kind: str
    span: Span


def search(query: str, roots: Iterable[Path], open_texts: dict[str, str]) -> list[Found]:
    """Kernels whose names contain the letters of ``query`` in order. ``open_texts``: path -> text of documents in the editor."""
    found: list[Found] = []
    seen: set[str] = set()
    for path in [*map(Path, open_texts), *python_files(roots)]:
        if str(path) in seen:
            continue
        seen.add(str(path))
        text = open_texts.get(str(path))
        for symbol in _kernels(str(path), text if text is not None else text_of(path)):
            if _fits(query, symbol.name):
                found.append(symbol)
                if len(found) >= _MOST:
                    return found
    return found


@lru_cache(maxsize=2048)
def _kernels(path: str, text: str) -> tuple[Found, ...]:
    if not mentions_language(text):
        return ()
    source = SourceFile(path, text)
    return tuple(Found(d.name, d.qualname.rpartition(".")[0], d.kind, d.name_span) for d in find_definitions(source, set()))


def _fits(query: str, name: str) -> bool:
    rest = iter(name.lower())
    return all(letter in rest for letter in query.lower() if not letter.isspace())
