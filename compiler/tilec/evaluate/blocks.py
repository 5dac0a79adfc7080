"""Walking over statements without looking at their expressions."""
from __future__ import annotations

import ast
from collections.abc import Iterator

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


def statements_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements, handlers and cases right inside a node, in order."""
    for name in _BLOCKS:
        inner = getattr(node, name, None)
        if isinstance(inner, list):  # a lambda's body is an expression
            yield from inner


def statements_within(node: ast.AST) -> Iterator[ast.AST]:
    """The same at all depths, in no particular order."""
    stack = list(statements_of(node))
    while stack:
        item = stack.pop()
        yield item
        stack.extend(statements_of(item))
