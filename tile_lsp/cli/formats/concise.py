"""One line each: ``path:line:column: severity code message [name]``."""

from __future__ import annotations

from tilec.check.diagnostic import Diagnostic

from .report import Report, shown_path


def line(d: Diagnostic) -> str:
    return f"{shown_path(d.span.path)}:{d.span.line}:{d.span.column}: {d.severity} {d.code} {d.message} [{d.name}]"


def render(report: Report) -> str:
    return "\n".join(line(d) for d in report.diagnostics)
