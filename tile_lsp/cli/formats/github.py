"""Workflow commands of GitHub Actions: annotations in the diff of a pull request."""

from __future__ import annotations

from tilec.check.diagnostic import Diagnostic

from ..checking.notebook import split_path
from .report import Report, shown_path

_COMMANDS = {"error": "error", "warning": "warning", "information": "notice"}


def render(report: Report) -> str:
    failures = [f"::error title=tile-lsp::{_message(f)}" for f in report.failures]
    return "\n".join([*(_annotation(d) for d in report.diagnostics), *failures])


def _annotation(d: Diagnostic) -> str:
    path, cell = split_path(d.span.path)
    place = {"file": shown_path(path).replace("\\", "/")}
    if cell is None:  # lines of a cell are no lines of the file
        place["line"] = str(d.span.line)
        if d.span.end_line == d.span.line:  # columns of several lines are ignored there
            place |= {"col": str(d.span.column), "endColumn": str(d.span.end_column)}
        else:
            place["endLine"] = str(d.span.end_line)
    properties = {"title": f"{d.code} {d.name}", **place}
    told = ",".join(f"{k}={_property(v)}" for k, v in properties.items())
    where = f"{shown_path(d.span.path)}:{d.span.line}:{d.span.column}: "
    return f"::{_COMMANDS[d.severity]} {told}::{_message(where + d.message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
