"""Parsing a text that differs little from one parsed before: top-level statements outside the change keep their syntax trees."""
from __future__ import annotations

import ast

from .parse import ParseResult, SyntaxProblem, parse_lines


def reparse(old: ParseResult, lines: list[str]) -> tuple[ast.Module | None, SyntaxProblem | None]:
    """What :func:`parse_lines` makes of ``lines``, with the statements of ``old`` where nothing changed.

    Statements above the changed lines are kept, and those below it where no line was added or removed. If what stands between
    parses by itself, then it ends where a statement ends, and the whole parses to the parts. If not, everything from the last
    whole statement above on is parsed: there the parser is as at the beginning of a text.
    """
    if old.lines is None:
        return parse_lines(lines)
    body = old.tree.body
    before = _common(old.lines, lines)
    if before == len(old.lines) == len(lines):
        return old.tree, None
    first = _kept_above(body, before)
    tree = _between(body, first, _kept_below(body, _unchanged(old.lines, lines, before)), lines)
    if tree is not None:
        return tree, None
    first = _kept_above(body, _first_line(body[first - 1]) - 1) if first else 0
    start = _end(body, first)
    if _continues(lines, start):
        return parse_lines(lines)
    rest, error = parse_lines(lines[start:], start)
    return (ast.Module([*body[:first], *rest.body], []), None) if rest is not None else (None, error)


def _between(body: list[ast.stmt], first: int, last: int, lines: list[str]) -> ast.Module | None:
    """The whole tree with the statements ``body[first:last]`` parsed again; None if their lines do not parse by themselves."""
    last = max(first, last)
    start = _end(body, first)
    end = _first_line(body[last]) - 1 if last < len(body) else len(lines)
    if end < start or _continues(lines, start) or _continues(lines, end):
        return None
    middle, _ = parse_lines(lines[start:end], start)
    return ast.Module([*body[:first], *middle.body, *body[last:]], []) if middle is not None else None


def _end(body: list[ast.stmt], count: int) -> int:
    """How many lines the first ``count`` statements take up, with what stands above them."""
    return (body[count - 1].end_lineno or 0) if count else 0


def _unchanged(old: list[str], lines: list[str], before: int) -> int:
    """The index from which on all lines are the same and at the same place."""
    if len(old) != len(lines):
        return len(old)
    return len(old) - min(_common(old[::-1], lines[::-1]), len(old) - before)


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
