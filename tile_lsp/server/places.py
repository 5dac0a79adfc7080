"""Places of a text as places of the client's documents: one file, or the cells of a notebook."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lsprotocol import types
from pygls import uris
from pygls.workspace import PositionCodec
from tilec.records import dataclass
from tilec.source.span import Span

from ..ide.document import Document
from .convert import to_place, to_position


@dataclass(frozen=True)
class Cell:
    """A code cell of a notebook: its lines stand from ``first`` on (counted from 1) in the notebook's text."""

    uri: str
    first: int
    count: int
    version: int = 0


class Places:
    """``read``: the lines of another file as the editor has it."""

    def __init__(self, uri: str, document: Document, codec: PositionCodec, cells: Sequence[Cell] = (), read: Callable[[str], list[str]] = lambda path: []):
        self.uri, self.document, self.codec, self.cells = uri, document, codec, tuple(cells)
        self._read = read

    def place(self, uri: str, position: types.Position) -> tuple[int, int]:
        """A position in a document of the client as line and column from 1."""
        first = self._first(uri)
        return to_place(self.document, types.Position(line=position.line + first - 1, character=position.character), self.codec)

    def lines(self, uri: str) -> tuple[int, int]:
        """The lines of the text that a document of the client shows."""
        cell = next((c for c in self.cells if c.uri == uri), None)
        return (cell.first, cell.first + cell.count - 1) if cell is not None else (1, max(len(self.document.lines), 1))

    def uri_of(self, line: int) -> str:
        """The client's document that shows a line."""
        cell = next((c for c in reversed(self.cells) if c.first <= line), None)
        return cell.uri if cell is not None else self.uri

    def position(self, line: int, column: int) -> types.Position:
        first = self._first(self.uri_of(line))
        found = to_position(self.document.lines, line, column, self.codec)
        return types.Position(line=max(found.line - first + 1, 0), character=found.character)

    def range(self, span: Span) -> types.Range:
        start, end = self.position(span.line, span.column), self.position(span.end_line, span.end_column)
        if self.cells and self.uri_of(span.line) != self.uri_of(span.end_line):
            end = types.Position(line=self.lines(self.uri_of(span.line))[1] - self._first(self.uri_of(span.line)) + 1, character=0)
        return types.Range(start=start, end=end)

    def shows(self, uri: str, span: Span) -> bool:
        first, last = self.lines(uri)
        return span.path == self.document.path and first <= span.line <= last

    def location(self, span: Span) -> types.Location:
        """A place of this text or of another file."""
        if span.path == self.document.path:
            return types.Location(uri=self.uri_of(span.line), range=self.range(span))
        lines = self._read(span.path)
        return types.Location(uri=uris.from_fs_path(span.path) or "", range=types.Range(
            start=to_position(lines, span.line, span.column, self.codec) if lines else types.Position(span.line - 1, span.column - 1),
            end=to_position(lines, span.end_line, span.end_column, self.codec) if lines else types.Position(span.end_line - 1, span.end_column - 1)))

    def _first(self, uri: str) -> int:
        return next((c.first for c in self.cells if c.uri == uri), 1)
