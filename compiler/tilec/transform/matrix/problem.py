"""A matrix operation that cannot be compiled, said to the user."""

from __future__ import annotations

from ..errors import LoweringError


class MatrixProblem(LoweringError):
    """One paragraph naming place, cause and way out, and the statement or argument at fault."""
