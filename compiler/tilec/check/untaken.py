"""Branches decided while the kernel is built: what they name is used by other instances."""

from __future__ import annotations

import ast
from typing import Any

from ..source.file import SourceFile
from ..source.nodes import walk
from .diagnostic import Diagnostic


def used_elsewhere(d: Diagnostic, kernel: Any, source: SourceFile) -> bool:
    """Whether an unused buffer's name is read inside a condition of its kernel, so that other arguments may use it."""
    if d.name != "unused-buffer" or d.span.path != source.path:
        return False
    inside = [n for n in walk(source.tree) if kernel.first_line <= getattr(n, "lineno", 0) <= kernel.span.end_line]
    names = {t.id for n in inside if isinstance(n, ast.Assign) and _covers(n, d) for t in n.targets if isinstance(t, ast.Name)}
    branches = (part for n in inside if isinstance(n, (ast.If, ast.IfExp)) for part in _sides(n))
    return bool(names) and any(isinstance(x, ast.Name) and x.id in names and isinstance(x.ctx, ast.Load) for b in branches for x in walk(b))


def _covers(node: ast.Assign, d: Diagnostic) -> bool:
    return node.lineno <= d.span.line <= (node.end_lineno or node.lineno)


def _sides(node: ast.If | ast.IfExp) -> list[Any]:
    return [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
