"""Python that TileLang refuses in a kernel although it has a meaning elsewhere (tilelang/language/eager/ast.py, 0.1.15)."""
from __future__ import annotations

import ast

from ...source.nodes import walk
from ...source.span import Span
from ..evaluator import Evaluator


def check_targets(ev: Evaluator, targets: list[ast.expr]) -> None:
    """Names, elements and tuples of them can be assigned; attributes and starred names cannot."""
    for target in targets:
        if target.__class__ is ast.Name:
            continue
        for part in walk(target):
            if isinstance(part, ast.Starred):
                ev.problem("python-syntax", "a starred name cannot be assigned inside a kernel; unpack by index or slice", part)
                return
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                ev.problem("python-syntax", "assignment to an attribute is not possible inside a kernel", part)
                return


def check_else(ev: Evaluator, node: ast.For | ast.While, head: ast.expr | Span) -> None:
    """A loop with ``else``. Where a break makes the arm depend on how the loop ended, the arm is what cannot be had."""
    if node.orelse:
        word = "for" if isinstance(node, ast.For) else "while"
        message = f"{word} ... else is not possible inside a kernel"
        if any(isinstance(s, ast.Break) for s in _own_statements(node.body)):
            ev.problem("python-syntax", f"{message}; note in a T.alloc_var whether the loop was left early", _else_span(ev, node))
        else:
            ev.problem("python-syntax", f"{message}; write the statements after the loop", head)


def _own_statements(body: list[ast.stmt]):
    """The statements of a loop's body, without those of loops inside."""
    for s in body:
        yield s
        if not isinstance(s, (ast.For, ast.While, ast.FunctionDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from _own_statements(getattr(s, name, []))


def _else_span(ev: Evaluator, node: ast.For | ast.While) -> Span:
    whole, first = ev.span(node), ev.span(node.orelse[0])
    for line in range(first.line, (node.body[-1].end_lineno or first.line) - 1, -1):
        text = ev.source.lines[line - 1] if line <= len(ev.source.lines) else ""
        column = text.find("else")
        if column >= 0 and text[:column].strip() == "":
            return Span(whole.path, line, column + 1, line, column + 5, whole.caller)
    return first


def check_function(ev: Evaluator, node: ast.FunctionDef) -> None:
    ev.problem("python-syntax", f"{node.name} is defined inside a kernel, which is not possible; define functions and macros outside of it",
               Span(ev.source.path, node.lineno, node.col_offset + 1, node.lineno, node.col_offset + 5 + len(node.name),
                    ev.callers[-1] if ev.callers else None))
