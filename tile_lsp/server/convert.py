"""Between this tool's places (from 1, code points) and the protocol's (from 0, the client's code units)."""
from __future__ import annotations

from lsprotocol import types
from pygls import uris
from pygls.workspace import PositionCodec
from tilec.check.diagnostic import Diagnostic, Edit
from tilec.source.span import Span

from ..ide.document import Document
from .text import units_to_index

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


def to_range(document: Document, span: Span, codec: PositionCodec) -> types.Range:
    return types.Range(start=to_position(document.lines, span.line, span.column, codec),
                       end=to_position(document.lines, span.end_line, span.end_column, codec))


def to_diagnostic(document: Document, uri: str, found: Diagnostic, codec: PositionCodec) -> types.Diagnostic:
    span = found.span
    related = []
    if span.path != document.path:
        # The fault stands in a file this one uses: shown where it is reached, with the place itself as related information.
        related.append(_related_elsewhere("here", span, codec))
        span = _reached_in(document, span)
    related += [types.DiagnosticRelatedInformation(location=types.Location(uri=uri, range=to_range(document, r.span, codec)), message=r.message)
                if r.span.path == document.path else _related_elsewhere(r.message, r.span, codec) for r in found.related]
    return types.Diagnostic(
        range=to_range(document, span, codec), message=found.message, severity=_SEVERITIES.get(found.severity, types.DiagnosticSeverity.Information),
        code=found.code, code_description=types.CodeDescription(href=found.url), source=SOURCE,
        tags=None, related_information=related or None)


def _reached_in(document: Document, span: Span) -> Span:
    at: Span | None = span
    while at is not None and at.path != document.path:
        at = at.caller
    return at or Span(document.path, 1, 1, 1, 1)


def _related_elsewhere(message: str, span: Span, codec: PositionCodec) -> types.DiagnosticRelatedInformation:
    """Another file's text is not at hand: columns are taken as they are."""
    place = types.Range(start=types.Position(line=span.line - 1, character=span.column - 1),
                        end=types.Position(line=span.end_line - 1, character=span.end_column - 1))
    return types.DiagnosticRelatedInformation(location=types.Location(uri=uris.from_fs_path(span.path) or "", range=place), message=message)


def to_edits(document: Document, edits: tuple[Edit, ...], codec: PositionCodec) -> list[types.TextEdit]:
    return [types.TextEdit(range=to_range(document, e.span, codec), new_text=e.text) for e in edits]
