"""Published diagnostics as plain JSON, for when the protocol's classes are not loaded yet (``early.py``): what ``convert.to_diagnostic`` makes of the same."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pygls import uris
from tilec.check.diagnostic import Diagnostic
from tilec.source.span import Span

from ..ide.document import Document

_SEVERITIES = {"error": 1, "warning": 2}
_UNITS: dict[str, Callable[[str], int]] = {
    "utf-16": lambda text: len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "utf-8": lambda text: len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")),
    "utf-32": len,
}


def document_of(item: dict[str, Any]) -> Document | None:
    """An opened file; None for what is no file."""
    path = uris.to_fs_path(item["uri"])
    return Document(path, item["text"], item.get("version") or 0) if path else None


def published(uri: str, document: Document, found: list[Diagnostic], encoding: str) -> dict[str, Any] | None:
    """None where it takes the server to say it: places in other files."""
    if encoding not in _UNITS or any(span.path != document.path for d in found for span in (d.span, *(r.span for r in d.related))):
        return None
    made: dict[str, Any] = {"uri": uri, "diagnostics": [_diagnostic(uri, document.lines, d, _UNITS[encoding]) for d in found]}
    if document.version:
        made["version"] = document.version
    return made


def _diagnostic(uri: str, lines: list[str], d: Diagnostic, units: Callable[[str], int]) -> dict[str, Any]:
    made: dict[str, Any] = {"range": _range(lines, d.span, units), "message": d.message, "severity": _SEVERITIES.get(d.severity, 3), "code": d.code,
                            "codeDescription": {"href": d.url}, "source": "tile-lsp"}
    if d.name.startswith("unused-"):
        made["tags"] = [1]
    if d.related:
        made["relatedInformation"] = [{"location": {"uri": uri, "range": _range(lines, r.span, units)}, "message": r.message} for r in d.related]
    return made


def _range(lines: list[str], span: Span, units: Callable[[str], int]) -> dict[str, Any]:
    def position(line: int, column: int) -> dict[str, int]:
        index = min(max(line - 1, 0), max(len(lines) - 1, 0))
        return {"line": index, "character": units(lines[index][:max(column - 1, 0)])}

    return {"start": position(span.line, span.column), "end": position(span.end_line, span.end_column)}
