"""Jupyter notebooks: their code cells as one Python text, and places in it as places in cells.

A place in a cell has the path ``notebook.ipynb:cell 3``; cells count from 1, text cells included, as notebooks show them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from tilec.check.diagnostic import Diagnostic, Edit, Fix, Related
from tilec.records import dataclass
from tilec.source.span import Span

from ...ide.cells import python_lines
from .edits import apply_edits
from .files import Unreadable

SUFFIX = ".ipynb"
_CELL = ":cell "


def split_path(path: str) -> tuple[str, int | None]:
    """A diagnostic's path as the file and the number of the cell."""
    file, mark, number = path.rpartition(_CELL)
    return (file, int(number)) if mark and number.isdigit() else (path, None)


@dataclass
class Cell:
    number: int
    lines: list[str]
    first: int = 0  # its first line in the whole text


@dataclass
class Notebook:
    """``text``: the code cells one after the other, with magics made into Python that means nothing."""

    path: str
    file_text: str
    cells: list[Cell] = field(default_factory=list)
    text: str = ""

    def place(self, span: Span) -> Span:
        """A place of :attr:`text` as a place in a cell. Other files' places stay what they are."""
        caller = self.place(span.caller) if span.caller is not None else None
        if span.path != self.path:
            return replace(span, caller=caller)
        cell = next((c for c in reversed(self.cells) if c.first <= span.line), None)
        if cell is None:
            return replace(span, caller=caller)
        shift, last = cell.first - 1, len(cell.lines)
        line, end = min(span.line - shift, last + 1), span.end_line - shift
        return Span(f"{self.path}{_CELL}{cell.number}", line, span.column, min(end, last + 1), span.end_column, caller)

    def diagnostic(self, d: Diagnostic) -> Diagnostic:
        fix = None
        if d.fix is not None:
            fix = Fix(d.fix.title, tuple(Edit(self.place(e.span), e.text) for e in d.fix.edits), d.fix.safe)
        related = tuple(Related(r.message, self.place(r.span)) for r in d.related)
        return replace(d, span=self.place(d.span), related=related, fix=fix)

    def edited(self, edits: Sequence[Edit]) -> str:
        """The notebook's file after edits of cells (places as :meth:`place` gives them). Indentation and line ends are kept."""
        changed = json.loads(self.file_text)
        for cell in self.cells:
            own = [e for e in edits if e.span.path == f"{self.path}{_CELL}{cell.number}"]
            if own:
                _set_source(changed["cells"][cell.number - 1], apply_edits("\n".join(cell.lines), own))
        indentation = re.search(r'\n([ \t]+)"', self.file_text)
        indent = indentation.group(1) if indentation else None
        text = json.dumps(changed, indent=indent, ensure_ascii=False, separators=None if indent else (",", ":"))
        text += "\n" if self.file_text.endswith("\n") else ""
        return text.replace("\n", "\r\n") if "\r\n" in self.file_text else text


def parse(path: str, text: str) -> Notebook:
    """Raises Unreadable for what is no notebook."""
    try:
        data = json.loads(text) if text.strip() else {"cells": []}
    except ValueError as error:
        raise Unreadable(path, f"is no notebook: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cells"), list):
        raise Unreadable(path, "is no notebook of format 4 (it has no list of cells); open and save it in Jupyter")
    found = Notebook(path, text)
    blanked: list[str] = []
    if _is_python(data):
        for number, cell in enumerate(data["cells"], 1):
            source = _source(cell)
            if source is None:
                continue
            lines = source.split("\n")
            found.cells.append(Cell(number, lines, len(blanked) + 1))
            blanked += [*python_lines(lines), ""]
    found.text = "\n".join(blanked)
    return found


def _is_python(data: dict[str, Any]) -> bool:
    metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    for key in ("language_info", "kernelspec"):
        info = metadata.get(key)
        name = (info.get("name" if key == "language_info" else "language") if isinstance(info, dict) else None) or "python"
        if name != "python":
            return False
    return True


def _source(cell: Any) -> str | None:
    """A code cell's text."""
    if not isinstance(cell, dict) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    if isinstance(source, list):
        return "".join(s for s in source if isinstance(s, str))
    return source if isinstance(source, str) else None


def _set_source(cell: dict[str, Any], text: str) -> None:
    cell["source"] = text.splitlines(keepends=True) if isinstance(cell.get("source"), list) else text
