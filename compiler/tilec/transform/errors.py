"""What a target cannot do, as an error with a place."""
from __future__ import annotations

from ..source.span import Span


class LoweringError(Exception):
    """A program that cannot be lowered for its target. ``code`` is the name of a rule, or ``lowering``."""

    def __init__(self, message: str, span: Span | None = None, code: str = "lowering"):
        super().__init__(message)
        self.message = message
        self.span = span
        self.code = code


class RacingUpdate(LoweringError):
    """Iterations of several threads update one element of a fragment. ``place``: where, and the fragment's name."""

    def __init__(self, message: str, span: Span | None, fragment: str):
        super().__init__(message, span, "fragment-update")
        self.place = (span, fragment)
