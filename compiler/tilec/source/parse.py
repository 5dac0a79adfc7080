"""Parsing that never fails: statements Python cannot parse are blanked out and reported."""
from __future__ import annotations

import ast
import re
import sys
import warnings

from ..records import dataclass

_MISPLACED = ("unexpected indent", "unindent does not match any outer indentation level")
MAX_REPAIRS = 12  # a file with more broken statements than this is being torn apart, not edited


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    message: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class ParseResult:
    """``lines``: the text with its repairs, of which ``tree`` is the whole tree; None where the text was too torn for that."""

    tree: ast.Module
    errors: tuple[SyntaxProblem, ...]
    lines: list[str] | None


def parse(text: str, previous: ParseResult | None = None) -> ParseResult:
    """Parse, repairing up to MAX_REPAIRS broken places by replacing their lines with ``pass``.

    ``previous``: of an earlier text; statements that are the same keep their trees.
    """
    from .reparse import reparse

    errors: list[SyntaxProblem] = []
    lines = text.splitlines()
    for _ in range(MAX_REPAIRS):
        tree, error = reparse(previous, lines) if previous is not None else parse_lines(lines)
        if tree is not None:
            return ParseResult(tree, tuple(errors), lines)
        assert error is not None
        if not errors or errors[-1].line != error.line:
            errors.append(error)
        if not (_leave_out(lines, error) if error.message in _MISPLACED else _blank(lines, error.line)):
            break
    return ParseResult(_longest_prefix(lines), tuple(errors), None)


def parse_lines(lines: list[str], above: int = 0) -> tuple[ast.Module | None, SyntaxProblem | None]:
    """The tree of some lines that have ``above`` lines before them, or what is wrong with them."""
    return _try_parse("\n" * above + "\n".join(lines) + "\n")


def _try_parse(text: str) -> tuple[ast.Module | None, SyntaxProblem | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), None
    except SyntaxError as error:
        line = max(error.lineno or 1, 1)
        column = max(error.offset or 1, 1)
        end_line = max(error.end_lineno or line, line)
        end_column = error.end_offset or column + 1
        if end_line == line and end_column <= column:
            end_column = column + 1
        return None, SyntaxProblem(_message(error, text), line, column, end_line, end_column)
    except (ValueError, RecursionError, MemoryError, SystemError) as error:  # SystemError: CPython issue 106905
        return None, SyntaxProblem(f"cannot parse: {error}", 1, 1, 1, 2)


# What Python 3.12 and later understand: `class C[T]`, `def f[T](x)`, `type X = ...`.
_NEWER = re.compile(r"\s*(?:(?:async\s+)?def\s+\w+\[|class\s+\w+\[|type\s+\w+.*=)")


def _message(error: SyntaxError, text: str) -> str:
    found = error.msg or "invalid syntax"
    lines = text.splitlines()
    number = max(error.lineno or 1, 1)
    if sys.version_info < (3, 12) and number <= len(lines) and _NEWER.match(lines[number - 1]):
        return f"{found}: this form needs Python 3.12, and tile-lsp runs on {sys.version_info[0]}.{sys.version_info[1]}; install it there"
    return found


def _leave_out(lines: list[str], error: SyntaxProblem) -> bool:
    """Empty a line at a depth where none can stand, and what follows at that depth or deeper: a ``pass`` could not stand there either."""
    index = error.line - 1
    if index >= len(lines) or not lines[index].strip():
        return False
    depth = len(lines[index]) - len(lines[index].lstrip())
    while index < len(lines) and (not lines[index].strip() or len(lines[index]) - len(lines[index].lstrip()) >= depth):
        lines[index] = ""
        index += 1
    return True


def _blank(lines: list[str], number: int) -> bool:
    """Replace a broken line with ``pass`` at a fitting depth; a line blanked before takes its neighbour along."""
    index = min(number, len(lines)) - 1
    if index < 0:
        return False
    while index >= 0 and lines[index].strip() in ("", "pass"):
        index -= 1  # the error is reported after the broken statement: "expected an indented block", end of file
    if index < 0:
        return False
    depth = len(lines[index]) - len(lines[index].lstrip())
    opens_block = lines[index].rstrip().endswith(":")
    lines[index] = " " * depth + "pass"
    if opens_block:
        _dedent_block(lines, index, depth)
    return True


def _dedent_block(lines: list[str], header: int, depth: int) -> None:
    """The block of a blanked header moves one level out, so that its statements stay in the tree."""
    inner = None
    for i in range(header + 1, len(lines)):
        text = lines[i]
        if not text.strip():
            continue
        indent = len(text) - len(text.lstrip())
        if indent <= depth:
            return
        inner = indent - depth if inner is None else inner
        lines[i] = text[min(inner, indent):]


def _longest_prefix(lines: list[str]) -> ast.Module:
    """What parses of the beginning: whole top-level statements only."""
    starts = [i for i, text in enumerate(lines) if text[:1].strip() and not text.startswith("#")]
    for end in reversed(starts[-50:]):
        tree, _ = _try_parse("\n".join(lines[:end]) + "\n")
        if tree is not None:
            return tree
    return ast.Module(body=[], type_ignores=[])
