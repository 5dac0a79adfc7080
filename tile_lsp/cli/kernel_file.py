"""The file of ``FILE[::KERNEL]``: a Python file, or a notebook whose cells are one program."""
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tilec.records import dataclass
from tilec.source.span import Span

from .checking import notebook
from .checking.files import Unreadable, read_text
from .main import UsageError


@dataclass
class KernelFile:
    """``text``: what Python would read. Places in it are told by :meth:`words`."""

    path: str
    kernel: str
    text: str
    book: notebook.Notebook | None = None

    def words(self, text: str) -> str:
        """A message with its places in the file; those of a notebook's text as places in its cells."""
        if self.book is None:
            return text
        names = "|".join(re.escape(n) for n in dict.fromkeys((self.path, Path(self.path).name)))
        return re.sub(rf"({names}):(\d+):(\d+)", lambda m: self._place(m[1], int(m[2]), int(m[3])), text)

    def line(self, line: int) -> str:
        """``line 4``, or ``cell 3, line 4``."""
        if self.book is None:
            return f"line {line}"
        place = self.book.place(Span(self.path, line, 1, line, 1))
        return f"cell {notebook.split_path(place.path)[1]}, line {place.line}"

    def diagnostic(self, diagnostic: Any) -> Any:
        return diagnostic if self.book is None else self.book.diagnostic(diagnostic)

    def _place(self, name: str, line: int, column: int) -> str:
        assert self.book is not None
        place = self.book.place(Span(self.path, line, column, line, column))
        return f"{name}{place.path[len(self.path):]}:{place.line}:{place.column}"


def read(argument: str) -> KernelFile:
    path, _, kernel = argument.partition("::")
    try:
        text = read_text(Path(path))
        if not path.endswith(notebook.SUFFIX):
            return KernelFile(path, kernel, text)
        book = notebook.parse(path, text)
    except Unreadable as problem:
        raise UsageError(str(problem)) from None
    return KernelFile(path, kernel, book.text, book)
