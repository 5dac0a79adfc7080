"""What the checker reports, as plain values."""

from __future__ import annotations

from typing import Any

from ..records import dataclass
from ..source.span import Span

ERROR, WARNING, INFORMATION = "error", "warning", "information"
SEVERITIES = (ERROR, WARNING, INFORMATION)
PAGES_URL = "https://github.com/tilec/tilec/blob/main/compiler/tilec/check/pages"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a diagnostic (the other operand of a mismatch)."""

    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of ``span`` by ``text``."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """``safe``: the program's meaning cannot change by applying it."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Diagnostic:
    code: str
    name: str
    severity: str
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
    kernel: str = ""
    instance: str = ""

    @property
    def url(self) -> str:
        return f"{PAGES_URL}/{self.name}.md"

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.span.path,
            "kernel": self.kernel or None,
            "instance": self.instance or None,
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "range": range_json(self.span),
            "related": [{"message": r.message, "path": r.span.path, "range": range_json(r.span)} for r in self.related],
            "fix": None
            if self.fix is None
            else {
                "title": self.fix.title,
                "safe": self.fix.safe,
                "edits": [{"path": e.span.path, "range": range_json(e.span), "text": e.text} for e in self.fix.edits],
            },
            "url": self.url,
        }


def range_json(span: Span) -> dict[str, dict[str, int]]:
    """Lines and columns from 1; the end is one past the last character."""
    return {
        "start": {"line": span.line, "column": span.column},
        "end": {"line": span.end_line, "column": span.end_column},
    }
