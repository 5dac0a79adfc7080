"""A document as the editor shows it: path, text, version."""
from __future__ import annotations

from functools import cached_property

from tilec.records import dataclass

from .digest import digest

# Characters at which str.splitlines() breaks a line but neither Python's parser nor an editor does.
_NOT_LINE_ENDS = dict.fromkeys(map(ord, "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), " ")
MAX_CHARACTERS = 4_000_000  # a larger text is data, no kernel anybody edits


@dataclass(frozen=True)
class Document:
    """Immutable: an edit makes a new document. Lines and columns of every question count from 1, in code points."""

    path: str
    text: str
    version: int = 0

    @cached_property
    def normalized(self) -> str:
        """The text the front end reads: the same columns and lines, without exotic line separators."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").translate(_NOT_LINE_ENDS)

    @cached_property
    def lines(self) -> list[str]:
        return self.normalized.split("\n")

    @cached_property
    def key(self) -> str:
        """What caches of everything derived from this text go by."""
        return digest(f"{self.path}\0{self.text}")

    @property
    def readable(self) -> bool:
        """Whether this can be Python at all: no binary content, no huge text."""
        return len(self.text) <= MAX_CHARACTERS and "\0" not in self.text
