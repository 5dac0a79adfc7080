"""Files with statements that do not parse: what they lack may stand in those statements, so little is said about the rest."""

from __future__ import annotations

from typing import Any

from ..source.file import SourceFile
from .diagnostic import Diagnostic


def whole_kernels(analysis: Any) -> list[Any]:
    """The kernels without a syntax error inside, and without a line that was left out for one after them."""
    broken = [span.line for _, span in analysis.source.syntax_errors]
    if not broken:
        return list(analysis.kernels)
    inside = [k for k in analysis.kernels if not any(k.first_line <= line <= k.span.end_line for line in broken)]
    return [k for k in inside if not analysis.source.is_torn(k.outermost)]


def without_follow_ons(found: list[Diagnostic], source: SourceFile) -> list[Diagnostic]:
    """A name that is missing may be bound in a statement that does not parse."""
    if not source.syntax_errors:
        return found
    return [d for d in found if d.name not in ("undefined-name", "use-before-alloc")]
