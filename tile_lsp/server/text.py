"""Documents kept in step with the client's, by the protocol's idea of a line."""
from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


class ProtocolDocument(TextDocument):
    """pygls breaks lines wherever str.splitlines() does; clients break them at \\n, \\r\\n and \\r alone."""

    _cached: tuple[str, tuple[str, ...]] | None = None

    @property
    def lines(self) -> Sequence[str]:
        source = self.source
        if self._cached is None or self._cached[0] is not source:
            self._cached = (source, tuple(_LINE.findall(source)))
        return self._cached[1]

    def _apply_incremental_change(self, change: types.TextDocumentContentChangePartial) -> None:
        start = self._offset(change.range.start)
        end = max(start, self._offset(change.range.end))
        source = self.source
        self._source = source[:start] + change.text + source[end:]

    def _offset(self, position: types.Position) -> int:
        """Positions behind the end of a line or of the text stand for that end, as the protocol says."""
        lines = self.lines
        if position.line >= len(lines):
            return len(self.source)
        before = sum(map(len, lines[:position.line]))
        text = lines[position.line].rstrip("\r\n")
        return before + units_to_index(text, position.character, self.position_codec)


def units_to_index(text: str, units: int, codec) -> int:
    """How many characters the first ``units`` code units of a line are."""
    if text.isascii():
        return min(max(units, 0), len(text))
    passed = 0
    for index, character in enumerate(text):
        if passed >= units:
            return index
        passed += codec.client_num_units(character)
    return len(text)


def use_protocol_lines(workspace: Workspace) -> None:
    """Have a workspace make documents of our class."""

    def create(doc_uri: str, source: str | None = None, version: int | None = None, language_id: str | None = None) -> TextDocument:
        return ProtocolDocument(doc_uri, source=source, version=version, language_id=language_id,
                                sync_kind=types.TextDocumentSyncKind.Incremental, position_codec=workspace.position_codec)

    workspace._create_text_document = create  # type: ignore[method-assign]
