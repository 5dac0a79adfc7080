"""Parsing a text that differs little from one parsed before: top-level statements outside the change keep their syntax trees."""
from __future__ import annotations

import ast

from .parse import ParseResult, parse_region


def reparse(old: ParseResult, old_lines: list[str], lines: list[str]) -> ParseResult | None:
    """What :func:`parse` makes of ``lines``, with the statements of ``old`` where nothing changed; None if only a full look tells.

    Statements above the changed lines are kept, and those below it where no line was added or removed. What stands between
    must parse by itself: then it ends where a statement ends, and the whole parses to the parts.
    """
    if old.errors or not old.tree.body:
        return None
    before = _common(old_lines, lines)
    if before == len(old_lines) == len(lines):
        return old
    same_length = len(old_lines) == len(lines)
    after = _common(old_lines[:before - 1 if before else None:-1], lines[:before - 1 if before else None:-1]) if same_length else 0
    body = old.tree.body
    first = _kept_above(body, before)
    last = max(_kept_below(body, len(old_lines) - after), first) if same_length else len(body)
    start = (body[first - 1].end_lineno or 0) if first else 0  # the lines [start, end) are parsed again
    end = _first_line(body[last]) - 1 if last < len(body) else len(lines)
    if end < start or _continues(lines, start) or _continues(lines, end):
        return None
    middle = parse_region(lines[start:end], start)
    if middle is None:
        return None
    return ParseResult(ast.Module([*body[:first], *middle.body, *body[last:]], []), ())


def _common(a: list[str], b: list[str]) -> int:
    """How many items two lists have in common at their beginnings."""
    for index, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return index
    return min(len(a), len(b))


def _kept_above(body: list[ast.stmt], changed: int) -> int:
    """How many statements end above the line with index ``changed`` and share no line with a later one."""
    count = 0
    while count < len(body) and (body[count].end_lineno or 0) <= changed:
        count += 1
    while 0 < count < len(body) and _first_line(body[count]) <= (body[count - 1].end_lineno or 0):
        count -= 1
    return count


def _kept_below(body: list[ast.stmt], unchanged: int) -> int:
    """The index of the first statement that begins below the line with index ``unchanged`` - 1 and shares no line with an earlier one."""
    index = len(body)
    while index > 0 and _first_line(body[index - 1]) > unchanged:
        index -= 1
    while 0 < index < len(body) and _first_line(body[index]) <= (body[index - 1].end_lineno or 0):
        index += 1
    return index


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])


def _continues(lines: list[str], boundary: int) -> bool:
    """Whether the line before a boundary is joined to the next one by a backslash."""
    return boundary > 0 and lines[boundary - 1].endswith("\\")
