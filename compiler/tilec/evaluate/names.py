"""What a name that is not bound may be meant to be."""
from __future__ import annotations

import ast
import difflib

from ..source.file import SourceFile
from ..source.nodes import walk
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
    top = next((s for s in source.tree.body if _holds(s, name.lineno)), None)
    if top is None:
        return None
    functions, allocations = source.remembered("allocations", top, lambda: _functions_and_allocations(top))
    later = [s for s in allocations.get(name.id, ()) if s.lineno > name.lineno]
    if not later:
        return None
    innermost = max((f for f in functions if _holds(f, name.lineno)), key=lambda f: f.lineno, default=None)
    return next((s for s in later if innermost is not None and _holds(innermost, s.lineno)), None)


def _holds(s: ast.stmt, line: int) -> bool:
    return s.lineno <= line <= (s.end_lineno or s.lineno)


def _functions_and_allocations(top: ast.stmt) -> tuple[list[ast.FunctionDef], dict[str, list[ast.stmt]]]:
    """Looked for once: a name that is bound nowhere may be met many times, at many instances."""
    functions: list[ast.FunctionDef] = []
    allocations: dict[str, list[ast.stmt]] = {}
    for s in walk(top):
        if isinstance(s, ast.FunctionDef):
            functions.append(s)
        elif isinstance(s, ast.Assign) and _allocates(s.value):
            for target in s.targets:
                if isinstance(target, ast.Name):
                    allocations.setdefault(target.id, []).append(s)
    return functions, allocations


def _allocates(value: ast.expr) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr.startswith("alloc_")
