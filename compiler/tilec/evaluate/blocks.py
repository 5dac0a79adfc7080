"""Walking over statements without looking at their expressions."""
from __future__ import annotations

import ast

_BLOCKS = {
    kind: tuple(name for name in ("body", "handlers", "orelse", "finalbody", "cases") if name in kind._fields)
    for kind in (
        ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Match,
        ast.Try, ast.ExceptHandler, ast.match_case, *filter(None, [getattr(ast, "TryStar", None)]),  # since Python 3.11
    )
}


def statements_of(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases right inside a node, in order."""
    names = _BLOCKS.get(node.__class__)
    if names is None:
        return []
    found: list[ast.AST] = []
    for name in names:
        found += getattr(node, name)
    return found


def statements_within(node: ast.AST) -> list[ast.AST]:
    """The same at all depths, outer ones first."""
    found = statements_of(node)
    for item in found:
        if item.__class__ in _BLOCKS:
            found += statements_of(item)
    return found
