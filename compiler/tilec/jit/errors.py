"""What a program that compiles kernels may have to catch."""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..source.span import Span


class CompileError(ValueError):
    """A kernel that cannot be compiled. The text is one paragraph per fault, with the place in the user's file."""

    def __init__(self, message: str, diagnostics: Iterable[Any] = ()):
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


_FOR_A_FILE = re.compile(r"; give an instance that fixes [^;]*$")  # said of a file that is looked at; a program's calls give the arguments


def with_place(message: str, span: Span | None) -> str:
    """``file:line:column: message``, in the words of a program that calls the kernel."""
    message = _FOR_A_FILE.sub("; the arguments of the call do not tell it", message)
    return message if span is None or str(span) in message else f"{span}: {message}"
