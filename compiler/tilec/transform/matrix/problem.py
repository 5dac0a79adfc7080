"""A matrix operation that cannot be compiled, said to the user."""
from __future__ import annotations

from ...source.span import Span


class MatrixProblem(Exception):
    """``message``: one paragraph naming place, cause and way out; ``span``: the statement or argument at fault."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
