"""Branches decided while the kernel is built: what they name is used by other instances."""

from __future__ import annotations

import ast
from typing import Any

from ..source.file import SourceFile
from ..source.nodes import walk
from .diagnostic import Diagnostic


def used_elsewhere(d: Diagnostic, kernel: Any, source: SourceFile) -> bool:
    """Whether the name of a buffer that is not used or not written is read inside a condition of its kernel, so that other
    arguments may use it; of one that is not written, also whether the kernel hands it to a function other than TileLang's."""
    if d.name not in ("unused-buffer", "output-not-written") or d.span.path != source.path:
        return False
    inside = [n for n in walk(source.tree) if kernel.first_line <= getattr(n, "lineno", 0) <= kernel.span.end_line]
    names = {t.id for n in inside if isinstance(n, ast.Assign) and _covers(n, d) for t in n.targets if isinstance(t, ast.Name)}
    names |= {n.arg for n in inside if isinstance(n, ast.arg) and n.lineno <= d.span.line <= (n.end_lineno or n.lineno)
              and n.col_offset < d.span.column <= (n.end_col_offset or n.col_offset) + 1}
    parts = [part for n in inside if isinstance(n, (ast.If, ast.IfExp)) for part in _sides(n)]
    if d.name == "output-not-written":
        parts += [a for n in inside if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) for a in (*n.args, *n.keywords)]
    return bool(names) and any(isinstance(x, ast.Name) and x.id in names and isinstance(x.ctx, ast.Load) for b in parts for x in walk(b))


def _covers(node: ast.Assign, d: Diagnostic) -> bool:
    return node.lineno <= d.span.line <= (node.end_lineno or node.lineno)


def _sides(node: ast.If | ast.IfExp) -> list[Any]:
    return [*node.body, *node.orelse] if isinstance(node, ast.If) else [node.body, node.orelse]
