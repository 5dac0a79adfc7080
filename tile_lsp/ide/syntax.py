"""Which piece of syntax stands at a place."""
from __future__ import annotations

import ast

from tilec.source.file import SourceFile
from tilec.source.span import Span


def name_at(source: SourceFile, line: int, column: int) -> ast.Name | ast.arg | ast.Attribute | None:
    """The name, parameter or last part of a dotted name under a place."""
    best: ast.Name | ast.arg | ast.Attribute | None = None
    for node in nodes_on_line(source.tree, line):
        if isinstance(node, ast.Attribute):
            span = source.attribute_span(node)
        elif isinstance(node, ast.Name):
            span = source.span(node)
        elif isinstance(node, ast.arg):
            start = source.span(node)
            span = Span(start.path, start.line, start.column, start.line, start.column + len(node.arg))
        else:
            continue
        if holds(span, line, column):
            best = node
    return best


def span_of(source: SourceFile, node: ast.AST) -> Span:
    return source.attribute_span(node) if isinstance(node, ast.Attribute) else source.span(node)


def nodes_on_line(tree: ast.AST, line: int):
    """Every node whose text touches a line; subtrees elsewhere are not entered."""
    stack = [tree]
    while stack:
        node = stack.pop()
        first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if first is not None and last is not None:
            decorators = getattr(node, "decorator_list", None)
            if decorators:
                first = min(first, *(d.lineno for d in decorators))
            if not first <= line <= last:
                continue
            yield node
        stack.extend(ast.iter_child_nodes(node))


def statement_at(tree: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement of which a line is part."""
    found = [n for n in nodes_on_line(tree, line) if isinstance(n, ast.stmt)]
    return max(found, key=lambda n: (n.lineno, -(n.end_lineno or n.lineno)), default=None)


def head_lines(statement: ast.stmt) -> tuple[int, int]:
    """The lines of a statement without its body: what a hover on ``for`` or ``with`` is about."""
    body = getattr(statement, "body", None)
    last = statement.end_lineno or statement.lineno
    if isinstance(body, list) and body:
        last = max(statement.lineno, body[0].lineno - 1)
    return statement.lineno, last


def holds(span: Span, line: int, column: int) -> bool:
    """Whether a place lies in a span; the end counts, as for a cursor behind a word."""
    return (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column)
