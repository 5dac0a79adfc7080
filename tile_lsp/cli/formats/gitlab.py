"""A Code Quality report of GitLab CI (``artifacts:reports:codequality``)."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from typing import Any

from tilec.check.diagnostic import Diagnostic

from ..checking.notebook import split_path
from .report import Report

_SEVERITIES = {"error": "major", "warning": "minor", "information": "info"}


def render(report: Report) -> str:
    seen: Counter[str] = Counter()
    return json.dumps([_issue(d, seen) for d in report.diagnostics], indent=2, ensure_ascii=False)


def _issue(d: Diagnostic, seen: Counter[str]) -> dict[str, Any]:
    path, cell = split_path(d.span.path)
    relative = _in_project(path)
    # The line is left out, so that an issue stays the same when code above it moves.
    identity = "\0".join((relative, str(cell), d.code, d.message))
    seen[identity] += 1
    fingerprint = hashlib.sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()
    s = d.span
    positions = {"begin": {"line": s.line, "column": s.column}, "end": {"line": s.end_line, "column": s.end_column}}
    return {
        "check_name": d.name,
        "description": f"{d.code}: {d.message}" if cell is None else f"{d.code}: cell {cell}: {d.message}",
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[d.severity],
        "location": {"path": relative, "positions": positions} if cell is None else {"path": relative, "lines": {"begin": 1}},
    }


def _in_project(path: str) -> str:
    """Relative to the project's folder, as GitLab wants it."""
    root = os.environ.get("CI_PROJECT_DIR") or os.getcwd()
    absolute = os.path.abspath(path)
    return (os.path.relpath(absolute, root) if absolute.startswith(root.rstrip(os.sep) + os.sep) else path).replace(os.sep, "/")
