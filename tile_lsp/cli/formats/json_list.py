"""A JSON list of diagnostics. In a notebook ``cell`` is the number of the cell, and lines count within it."""

from __future__ import annotations

import json
from typing import Any

from tilec.check.diagnostic import Diagnostic

from ..checking.notebook import split_path
from .report import Report


def render(report: Report) -> str:
    return json.dumps([item(d) for d in report.diagnostics], indent=2, ensure_ascii=False)


def item(d: Diagnostic) -> dict[str, Any]:
    found = d.to_json()
    path, cell = split_path(d.span.path)
    if cell is None:
        return found
    edits = found["fix"]["edits"] if found["fix"] else []
    for place in (found, *found["related"], *edits):
        place["path"], place["cell"] = split_path(place["path"])
    return found
