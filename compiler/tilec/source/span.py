"""Places in source text."""
from __future__ import annotations

from ..records import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters in a file.

    Lines and columns count from 1, columns in Unicode code points; ``end_column`` is one past the last character.
    ``caller`` is the place of the call when the code was reached through a macro or helper function.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    caller: Span | None = None

    def outermost(self) -> Span:
        """The place in the kernel itself, outside every macro or helper."""
        span = self
        while span.caller is not None:
            span = span.caller
        return span

    def start(self) -> tuple[int, int]:
        return self.line, self.column

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"
