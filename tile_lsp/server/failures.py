"""Failed runs as diagnostics, at the line where that is known, until the text changes; and what the assembler said of those that did not fail."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lsprotocol import types
from tilec.source.span import Span

from ..ide.snapshot import Snapshot
from .places import Places
from .session import Session

SOURCE = "tile-lsp run"


def run_diagnostics(snapshot: Snapshot, places: Places, session: Session) -> Iterator[tuple[str, types.Diagnostic]]:
    """A client's document with the diagnostic of each kernel whose last run of this very text failed."""
    for (name, _), result in session.results.items():
        data = result.data
        if data.get("remarks") and result.document_key == snapshot.document.key:
            yield from _remarks(snapshot, places, name, data)
        if data.get("ok") or result.document_key != snapshot.document.key or data.get("cancelled"):
            continue
        kernel = snapshot.kernel_named(name)
        span = _span(snapshot, data.get("place"), kernel)
        if span is None:
            continue
        yield places.uri_of(span.line), types.Diagnostic(
            range=places.range(span), severity=types.DiagnosticSeverity.Error, source=SOURCE, code=_code(data),
            message=f"{data.get('instance') or name} on {data.get('target') or '?'}: {' '.join(str(data.get('error') or 'failed').split())}")


def _remarks(snapshot: Snapshot, places: Places, name: str, data: dict[str, Any]) -> Iterator[tuple[str, types.Diagnostic]]:
    kernel = snapshot.kernel_named(name)
    if kernel is None:
        return
    for text in data["remarks"]:
        code = text.split(":")[0].replace("ptxas ", "ptxas-")
        yield places.uri_of(kernel.name_span.line), types.Diagnostic(
            range=places.range(kernel.name_span), severity=types.DiagnosticSeverity.Warning, source=SOURCE, code=code,
            message=f"{data.get('instance') or name} on {data.get('target') or '?'}: {text}")


def _span(snapshot: Snapshot, place: Any, kernel: Any) -> Span | None:
    """The statement at a place, else the kernel's name."""
    if isinstance(place, (list, tuple)) and len(place) == 2 and 1 <= place[0] <= len(snapshot.source.lines):
        line, column = int(place[0]), int(place[1])
        text = snapshot.source.lines[line - 1]
        return Span(snapshot.source.path, line, column, line, max(len(text.rstrip()) + 1, column + 1))
    return kernel.name_span if kernel is not None else None


def _code(data: dict[str, Any]) -> str:
    if data.get("timed_out"):
        return "run-hang"
    return "run-mismatch" if data.get("max_abs_err") is not None or data.get("mismatch") else "run-failed"
