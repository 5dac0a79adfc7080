"""Edits of a text: several at once, in its own line ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tilec.check.diagnostic import Diagnostic, Edit
from tilec.source.span import Span

_LINE_END = re.compile(r"\r\n|\r|\n")  # what ends a line for Python and for editors; str.splitlines() knows more


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap. What is put in gets the line ends of the text."""
    starts = [0, *(m.end() for m in _LINE_END.finditer(text))]
    if starts[-1] != len(text):
        starts.append(len(text))
    first = _LINE_END.search(text)
    newline = first.group() if first else "\n"
    for edit in sorted(edits, key=lambda e: (e.span.line, e.span.column), reverse=True):
        start = _offset(starts, edit.span.line, edit.span.column)
        end = _offset(starts, edit.span.end_line, edit.span.end_column)
        text = text[:start] + edit.text.replace("\n", newline) + text[end:]
    return text


def _offset(starts: list[int], line: int, column: int) -> int:
    """A place past the end is the end."""
    if line >= len(starts):
        return starts[-1]
    return min(starts[line - 1] + column - 1, starts[-1])


def choose(diagnostics: Sequence[Diagnostic], paths: Iterable[str], unsafe: bool) -> tuple[list[Edit], int]:
    """Edits of fixes that can be made at once, and how many fixes they are. One that overlaps another, or that edits
    another file as well, is left for later."""
    own, chosen, seen, count = set(paths), [], set(), 0  # type: set[str], list[Edit], set[tuple[Edit, ...]], int
    for d in diagnostics:
        if d.fix is None or not d.fix.edits or not (d.fix.safe or unsafe) or d.fix.edits in seen:
            continue
        if any(e.span.path not in own for e in d.fix.edits):
            continue
        if any(_overlap(e.span, c.span) for e in d.fix.edits for c in chosen):
            continue
        seen.add(d.fix.edits)
        chosen += d.fix.edits
        count += 1
    return chosen, count


def _overlap(a: Span, b: Span) -> bool:
    """Whether two ranges share a character, or start at one place."""
    if a.path != b.path:
        return False
    first, second = sorted(((a.line, a.column, a.end_line, a.end_column), (b.line, b.column, b.end_line, b.end_column)))
    return first[:2] == second[:2] or first[2:] > second[:2]
