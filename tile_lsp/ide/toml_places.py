"""Where in a TOML text a key stands: the standard parser tells values alone, and people want lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

_KEY = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNED = re.compile(rf"^\s*({_DOTTED})\s*=")


def line_of(text: str, path: Sequence[str], value: str | None = None) -> int | None:
    """The line of the key ``path``, or of the innermost table of it that has one. ``value``: a text in the key's list;
    if it can be seen below the key, its line."""
    wanted, table = list(path), []  # type: list[str], list[str]
    best: tuple[int, int] = (0, 0)  # how much of the path, line
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        header, assigned = _HEADER.match(line), _ASSIGNED.match(line)
        if header:
            table = found = _keys(header.group(1))
        elif assigned:
            found = [*table, *_keys(assigned.group(1))]
        else:
            continue
        if found == wanted[: len(found)] and len(found) > best[0]:
            best = len(found), number
    if not best[1]:
        return None
    if value is not None:
        for number in range(best[1], min(best[1] + 200, len(lines)) + 1):
            if f'"{value}"' in lines[number - 1] or f"'{value}'" in lines[number - 1]:
                return number
            if number > best[1] and (_HEADER.match(lines[number - 1]) or _ASSIGNED.match(lines[number - 1])):
                break
    return best[1]


def _keys(dotted: str) -> list[str]:
    return [k.strip("\"'") for k in re.findall(_KEY, dotted)]
