"""One source file: text, tree, spans and directives."""
from __future__ import annotations

import ast
from functools import cached_property

from .directives import Directive, find_directives
from .parse import ParseResult, parse
from .span import Span


class SourceFile:
    """The text of a file, parsed on demand. Never raises on malformed Python: see :attr:`syntax_errors`."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def _parsed(self) -> ParseResult:
        return parse(self.text)

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
        line, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        return Span(self.path, line, self._column(line, node.col_offset),  # type: ignore[attr-defined]
                    end, self._column(end, node.end_col_offset or 0), caller)  # type: ignore[attr-defined]

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
        return ast.get_source_segment(self.text, node) or ""

    def _column(self, line: int, byte_offset: int) -> int:
        """Python counts UTF-8 bytes from 0; spans count characters from 1."""
        if line > len(self.lines):
            return byte_offset + 1
        text = self.lines[line - 1]
        if text.isascii():
            return byte_offset + 1
        return len(text.encode("utf-8")[:byte_offset].decode("utf-8", "ignore")) + 1
