"""One source file: text, tree, spans and directives."""
from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from .directives import Directive, find_directives
from .parse import ParseResult, parse
from .span import Span

T = TypeVar("T")
_WORD = re.compile(r"[^\W\d]\w*")


class SourceFile:
    """The text of a file, parsed on demand. Never raises on malformed Python: see :attr:`syntax_errors`.

    ``previous``: an earlier text of the same file. Top-level statements that an edit did not touch keep their syntax trees and
    what :meth:`remembered` holds of them.
    """

    def __init__(self, path: str, text: str, previous: SourceFile | None = None):
        self.path = path
        self.text = text
        self._previous = previous if previous is not None and previous.path == path else None
        self._memory: dict[tuple[str, ast.AST], object] = {}
        self._spans: dict[ast.AST, Span] = {}
        self._is_ascii = text.isascii()

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def _parsed(self) -> ParseResult:
        previous, self._previous = self._previous, None
        if previous is None:
            return parse(self.text)
        found = parse(self.text, previous._parsed)
        kept = {s for s in found.tree.body if not self._is_torn(s, found) and not previous._is_torn(s, previous._parsed)}
        self._memory = {key: value for key, value in previous._memory.items() if key[1] in kept}
        return found

    def is_torn(self, statement: ast.stmt) -> bool:
        """Whether a top-level statement of the tree is not what the text says, because something did not parse."""
        return self._is_torn(statement, self._parsed)

    def _is_torn(self, statement: ast.stmt, parsed: ParseResult) -> bool:
        """Whether the text of a statement is not what its tree was made from."""
        if not parsed.errors:
            return False
        if parsed.lines is None:
            return True
        # up to the next statement: what was left out at the end of this one is no part of its tree
        after = next((s for s in parsed.tree.body if s.lineno > (statement.end_lineno or statement.lineno)), None)
        end = len(self.lines) if after is None else min([after.lineno, *(d.lineno for d in getattr(after, "decorator_list", ()))]) - 1
        place = slice(statement.lineno - 1, max(end, statement.end_lineno or 0))
        return self.lines[place] != parsed.lines[place]

    def remembered(self, kind: str, statement: ast.stmt, make: Callable[[], T]) -> T:
        """What was made of a top-level statement before, where neither its text nor its place has changed since."""
        key = (kind, statement)
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]  # type: ignore[return-value]

    def words(self, statement: ast.stmt) -> frozenset[str]:
        """Every word in the text of a statement, its decorators included: it uses no other names."""
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        lines = self.lines[first - 1:statement.end_lineno]
        return self.remembered("words", statement, lambda: frozenset(_WORD.findall("\n".join(lines))))

    @property
    def tree(self) -> ast.Module:
        return self._parsed.tree

    @cached_property
    def syntax_errors(self) -> list[tuple[str, Span]]:
        """What Python could not parse; the tree lacks those statements."""
        return [(e.message, Span(self.path, e.line, e.column, e.end_line, e.end_column)) for e in self._parsed.errors]

    @cached_property
    def directives(self) -> list[Directive]:
        return find_directives(self.text)

    def span(self, node: ast.AST, caller: Span | None = None) -> Span:
        """The place of a syntax node."""
        known = self._spans.get(node) if caller is None else None
        if known is not None:
            return known
        line, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        made = Span(self.path, line, self._column(line, node.col_offset),  # type: ignore[attr-defined]
                    end, self._column(end, node.end_col_offset or 0), caller)  # type: ignore[attr-defined]
        if caller is None:
            self._spans[node] = made
        return made

    def attribute_span(self, node: ast.Attribute) -> Span:
        """The place of the last name of ``a.b.c``."""
        whole = self.span(node)
        return Span(self.path, whole.end_line, whole.end_column - len(node.attr), whole.end_line, whole.end_column)

    def name_span(self, node: ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) -> Span:
        """The place of the name in ``def name`` or ``class name``."""
        text = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        column = text.find(node.name, self._column(node.lineno, node.col_offset) - 1)
        column = max(column, 0) + 1
        return Span(self.path, node.lineno, column, node.lineno, column + len(node.name))

    def segment(self, node: ast.AST) -> str:
        """The source text of a node."""
        span = self.span(node)
        if span.line == span.end_line:
            return self.lines[span.line - 1][span.column - 1:span.end_column - 1]
        inner = self.lines[span.line:span.end_line - 1]
        return "\n".join([self.lines[span.line - 1][span.column - 1:], *inner, self.lines[span.end_line - 1][:span.end_column - 1]])

    def _column(self, line: int, byte_offset: int) -> int:
        """Python counts UTF-8 bytes from 0; spans count characters from 1."""
        if self._is_ascii or line > len(self.lines):
            return byte_offset + 1
        text = self.lines[line - 1]
        if text.isascii():
            return byte_offset + 1
        return len(text.encode("utf-8", "surrogatepass")[:byte_offset].decode("utf-8", "ignore")) + 1
