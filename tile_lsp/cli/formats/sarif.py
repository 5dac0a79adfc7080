"""SARIF 2.1.0, the exchange format of static analysis that code hosts read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tilec
from tilec.check.diagnostic import Diagnostic, Fix
from tilec.check.registry import BY_NAME, Rule
from tilec.source.span import Span

from ..checking.notebook import split_path
from .report import Report, shown_path

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "information": "note"}


def render(report: Report) -> str:
    names = list(dict.fromkeys(d.name for d in report.diagnostics))
    run = {
        "tool": {
            "driver": {
                "name": "tile-lsp",
                "version": tilec.__version__,
                "informationUri": "https://github.com/tilec/tilec",
                "rules": [_rule(BY_NAME[n], next(d.url for d in report.diagnostics if d.name == n)) for n in names],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, names.index(d.name)) for d in report.diagnostics],
        "invocations": [
            {
                "executionSuccessful": not report.failures,
                "toolExecutionNotifications": [{"level": "error", "message": {"text": f}} for f in report.failures],
            }
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(rule: Rule, url: str) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "helpUri": url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"family": rule.family},
    }


def _result(d: Diagnostic, index: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": d.code,
        "ruleIndex": index,
        "level": _LEVELS[d.severity],
        "message": {"text": d.message},
        "locations": [_location(d.span, d.kernel)],
    }
    related = [(r.message, r.span) for r in d.related]
    if d.span.caller is not None:
        related.append(("reached from", d.span.outermost()))
    if related:
        found["relatedLocations"] = [{"id": i, **_location(s), "message": {"text": text}} for i, (text, s) in enumerate(related, 1)]
    if d.fix is not None and d.fix.edits and split_path(d.span.path)[1] is None:
        found["fixes"] = [_fix(d.fix)]
    if d.instance:
        found["properties"] = {"instance": d.instance}
    return found


def _location(span: Span, kernel: str = "") -> dict[str, Any]:
    path, cell = split_path(span.path)
    place: dict[str, Any] = {"artifactLocation": _artifact(path)}
    logical = [{"name": kernel, "kind": "function"}] if kernel else []
    if cell is None:  # lines of a cell are no lines of the file
        place["region"] = _region(span)
    else:
        logical.insert(0, {"name": f"cell {cell}, line {span.line}", "kind": "module"})
    return {"physicalLocation": place, **({"logicalLocations": logical} if logical else {})}


def _artifact(path: str) -> dict[str, str]:
    shown = shown_path(path)
    return {"uri": Path(shown).as_uri() if os.path.isabs(shown) else quote(shown.replace(os.sep, "/"))}


def _region(span: Span) -> dict[str, int]:
    return {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}


def _fix(fix: Fix) -> dict[str, Any]:
    paths = list(dict.fromkeys(e.span.path for e in fix.edits))
    return {
        "description": {"text": fix.title},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(path),
                "replacements": [
                    {"deletedRegion": _region(e.span), "insertedContent": {"text": e.text}} for e in fix.edits if e.span.path == path
                ],
            }
            for path in paths
        ],
    }
