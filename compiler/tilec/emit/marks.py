"""Which source place each line of a TVMScript text came from: marks printed before statements, taken out again afterwards."""
from __future__ import annotations

import re
from typing import Any

from .. import tvm_compat as T
from ..source.span import Span

_NAME = "tilec_place"
_MARK = re.compile(rf'^( *)T\.call_extern\("int32", "{_NAME}", (\d+)\)$')


class LineMarks:
    """Numbers the places of one module; ``strip`` turns the marked text into the text and its line map."""

    def __init__(self) -> None:
        self._places: list[Span] = []

    def before(self, span: Span | None) -> list[Any]:
        """A statement that marks the next one."""
        if span is None:
            return []
        if not self._places or self._places[-1] != span:
            self._places.append(span)
        return [T.evaluate(T.extern(_NAME, "int32", [T.constant(len(self._places) - 1, "int32")]))]

    def strip(self, text: str) -> tuple[str, list[Span | None]]:
        """A line belongs to the last mark before it at its depth or less; deeper marks end with their block."""
        lines: list[str] = []
        places: list[Span | None] = []
        open_marks: list[tuple[int, Span]] = []
        for line in text.splitlines():
            mark = _MARK.match(line)
            depth = len(line) - len(line.lstrip())
            while open_marks and line.strip() and open_marks[-1][0] > depth:
                open_marks.pop()
            if mark:
                while open_marks and open_marks[-1][0] >= depth:
                    open_marks.pop()
                open_marks.append((depth, self._places[int(mark.group(2))]))
                continue
            lines.append(line)
            places.append(open_marks[-1][1] if open_marks and line.strip() else None)
        return "\n".join(lines) + "\n", places
