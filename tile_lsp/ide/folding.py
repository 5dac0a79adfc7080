"""Folding ranges: compound statements, long calls, imports, comments, regions, strings."""
from __future__ import annotations

import ast
import re

from tilec.records import dataclass

from .snapshot import Snapshot

_REGION = re.compile(r"^\s*#\s*(region|endregion)\b")
_BODIES = ("body", "orelse", "finalbody")


@dataclass(frozen=True)
class Fold:
    """Lines from 1; ``kind``: "", comment, imports or region."""

    first: int
    last: int
    kind: str = ""


def folds(snapshot: Snapshot) -> list[Fold]:
    source = snapshot.source
    found: set[Fold] = set()
    for statement in source.tree.body:
        found.update(source.remembered("folds", statement, lambda s=statement: _of_statement(s)))  # type: ignore[misc]
    found.update(_imports(source.tree))
    found.update(_comments(source.lines))
    return sorted((f for f in found if f.last > f.first), key=lambda f: (f.first, -f.last))


def _of_statement(statement: ast.stmt) -> set[Fold]:
    found: set[Fold] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.ExceptHandler)):
            found.update(_bodies(node))
        if isinstance(node, (ast.Call, ast.Dict, ast.List, ast.Tuple, ast.Set)) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            if (node.end_lineno or 0) > node.lineno:
                found.add(Fold(node.lineno, node.end_lineno or node.lineno, "comment" if isinstance(node, ast.Constant) else ""))
    return found


def _bodies(node: ast.AST) -> list[Fold]:
    found = []
    for name in _BODIES:
        body = getattr(node, name, None)
        if not isinstance(body, list) or not body or not isinstance(body[0], ast.stmt):
            continue
        first = node.lineno if name == "body" else body[0].lineno - 1  # type: ignore[attr-defined]
        found.append(Fold(first, body[-1].end_lineno or body[-1].lineno))
    return found


def _imports(tree: ast.Module) -> list[Fold]:
    found, run = [], []
    for statement in (*tree.body, None):
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            run.append(statement)
            continue
        if len(run) > 1:
            found.append(Fold(run[0].lineno, run[-1].end_lineno or run[-1].lineno, "imports"))
        run = []
    return found


def _comments(lines: list[str]) -> list[Fold]:
    found, regions, begun = [], [], 0
    for number, text in enumerate([*lines, ""], 1):
        mark = _REGION.match(text)
        if mark and mark.group(1) == "region":
            regions.append(number)
        elif mark and regions:
            found.append(Fold(regions.pop(), number, "region"))
        if text.lstrip().startswith("#") and not mark:
            begun = begun or number
        else:
            if begun and number - 1 > begun:
                found.append(Fold(begun, number - 1, "comment"))
            begun = 0
    return found
