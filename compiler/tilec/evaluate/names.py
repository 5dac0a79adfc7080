"""What a name that is not bound may be meant to be."""
from __future__ import annotations

import ast
import difflib
import re

from ..source.file import SourceFile
from .scope import Scope


def suggestion(name: str, scope: Scope) -> str:
    """``; did you mean 'block_M'?`` or nothing."""
    known: set[str] = set()
    current: Scope | None = scope
    while current is not None:
        known.update(current.names)
        current = current.parent
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else ""


def allocated_later(source: SourceFile, name: ast.Name) -> ast.stmt | None:
    """The allocation further down in the same function that binds a name."""
    if not re.search(rf"\b{name.id}\s*=[^=\n]*\balloc_", source.text):  # names that are bound nowhere may be many
        return None
    tree = source.tree
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno <= name.lineno <= (n.end_lineno or n.lineno)]
    if not functions:
        return None
    innermost = max(functions, key=lambda f: f.lineno)
    for s in ast.walk(innermost):
        if isinstance(s, ast.Assign) and s.lineno > name.lineno and _allocates(s.value) and any(isinstance(t, ast.Name) and t.id == name.id for t in s.targets):
            return s
    return None


def _allocates(value: ast.expr) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr.startswith("alloc_")
