"""Notebook cells as Python text: magics and shell commands become Python that means nothing, and nothing moves."""
from __future__ import annotations

import re

_MAGIC = re.compile(r"^(?P<indent>\s*)(?:%%?[A-Za-z_]|[!?]|[\w.]+\?\??\s*$)")
_ASSIGNED_MAGIC = re.compile(r"^(?P<before>\s*[\w., \[\]'\"]+=\s*)(?:%[A-Za-z_]|!)")
_TIMED = ("%%time", "%%timeit", "%%capture", "%%prun")  # what follows in the cell is Python


def python_lines(lines: list[str]) -> list[str]:
    """The lines with magics and shell commands out of the way."""
    first = next((text for text in lines if text.strip()), "")
    if first.startswith("%%") and not first.startswith(_TIMED):
        return ["" for _ in lines]  # another language
    if not any(mark in text for text in lines for mark in "%!?") or _parses(lines):
        return lines
    found, continued = [], False
    for text in lines:
        if continued:
            found.append("")
            continued = text.endswith("\\")
            continue
        magic, assigned = _MAGIC.match(text), _ASSIGNED_MAGIC.match(text)
        continued = bool(magic or assigned) and text.endswith("\\")
        if magic:
            found.append(f"{magic['indent']}pass")
        elif assigned:
            found.append(f"{assigned['before']}get_ipython()")
        else:
            found.append(text)
    return found


def _parses(lines: list[str]) -> bool:
    from tilec.source.parse import parse_lines

    return parse_lines(lines)[0] is not None
