"""Files with statements that do not parse: what they lack may stand in those statements, so little is said about the rest."""

from __future__ import annotations

import ast
from typing import Any

from ..source.file import SourceFile
from .diagnostic import Diagnostic


def whole_kernels(analysis: Any) -> list[Any]:
    """The kernels without a syntax error inside, and without a line that was left out for one after them."""
    broken = [span.line for _, span in analysis.source.syntax_errors]
    if not broken:
        return list(analysis.kernels)
    inside = [k for k in analysis.kernels if not any(k.first_line <= line <= k.span.end_line for line in broken)]
    spoilt = _torn_names(analysis.source)
    return [k for k in inside if not analysis.source.is_torn(k.outermost) and not spoilt & analysis.source.words(k.outermost)]


def _torn_names(source: SourceFile) -> frozenset[str]:
    """The functions that lack a statement, and those that name one: a kernel that calls them lacks it too."""
    definitions = [s for s in source.tree.body if isinstance(s, (ast.FunctionDef, ast.ClassDef))]
    names = {s.name for s in definitions if source.is_torn(s)}
    while more := {s.name for s in definitions if s.name not in names and names & source.words(s)}:
        names |= more
    return frozenset(names)


def without_follow_ons(found: list[Diagnostic], source: SourceFile) -> list[Diagnostic]:
    """A name that is missing may be bound in a statement that does not parse."""
    if not source.syntax_errors:
        return found
    return [d for d in found if d.name not in ("undefined-name", "use-before-alloc")]


def outside_torn(found: list[Diagnostic], source: SourceFile) -> list[Diagnostic]:
    """What evaluating the module found, left out where a statement is not the one that was written: its lines may have lost their block."""
    if not source.syntax_errors:
        return found
    torn = [range(s.lineno, (s.end_lineno or s.lineno) + 1) for s in source.tree.body if source.is_torn(s)]
    return [d for d in found if d.span.path != source.path or not any(d.span.line in lines for lines in torn)]
