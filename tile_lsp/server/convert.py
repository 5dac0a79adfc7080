"""Between this tool's places (from 1, code points) and the protocol's (from 0, the client's code units)."""
from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.workspace import PositionCodec
from tilec.check.diagnostic import Diagnostic, Edit
from tilec.source.span import Span

from ..ide.document import Document
from .text import units_to_index

if TYPE_CHECKING:
    from .places import Places

SOURCE = "tile-lsp"
_SEVERITIES = {"error": types.DiagnosticSeverity.Error, "warning": types.DiagnosticSeverity.Warning,
               "information": types.DiagnosticSeverity.Information}


def to_place(document: Document, position: types.Position, codec: PositionCodec) -> tuple[int, int]:
    """A protocol position as line and column from 1."""
    lines = document.lines
    if position.line >= len(lines):
        return len(lines), len(lines[-1]) + 1
    return position.line + 1, units_to_index(lines[position.line], position.character, codec) + 1


def to_position(lines: list[str], line: int, column: int, codec: PositionCodec) -> types.Position:
    """Line and column from 1 as a protocol position inside the text."""
    index = min(max(line - 1, 0), max(len(lines) - 1, 0))
    text = lines[index] if lines else ""
    return types.Position(line=index, character=codec.client_num_units(text[:max(column - 1, 0)]))


def to_diagnostic(places: Places, found: Diagnostic) -> types.Diagnostic:
    span = found.span
    related = []
    if span.path != places.document.path:
        # The fault stands in a file this one uses: shown where it is reached, with the place itself as related information.
        related.append(types.DiagnosticRelatedInformation(location=places.location(span), message="here"))
        span = reached_in(places.document, span)
    related += [types.DiagnosticRelatedInformation(location=places.location(r.span), message=r.message) for r in found.related]
    return types.Diagnostic(
        range=places.range(span), message=found.message, severity=_SEVERITIES.get(found.severity, types.DiagnosticSeverity.Information),
        code=found.code, code_description=types.CodeDescription(href=found.url), source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if found.name.startswith("unused-") else None, related_information=related or None)


def reached_in(document: Document, span: Span) -> Span:
    """The place in the document itself through which a place elsewhere was reached."""
    at: Span | None = span
    while at is not None and at.path != document.path:
        at = at.caller
    return at or Span(document.path, 1, 1, 1, 1)


def to_edits(places: Places, edits: tuple[Edit, ...]) -> dict[str, list[types.TextEdit]]:
    """Edits by the client's document."""
    found: dict[str, list[types.TextEdit]] = {}
    for e in edits:
        found.setdefault(places.uri_of(e.span.line), []).append(types.TextEdit(range=places.range(e.span), new_text=e.text))
    return found
