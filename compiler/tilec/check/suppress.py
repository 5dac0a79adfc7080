"""``# tile-lsp: ignore[code]`` on a line and ``# tile-lsp: ignore-file[code]`` anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..source.directives import Directive
from ..source.file import SourceFile
from .diagnostic import Diagnostic
from .registry import BY_CODE
from .settings import selects


def selectors(directive: Directive) -> tuple[str, ...]:
    """The codes or names in the brackets; empty for all rules."""
    match = re.match(r"\[([^\]]*)\]", directive.text)
    return tuple(s.strip() for s in match.group(1).split(",") if s.strip()) if match else ()


def suppressed(diagnostics: Iterable[Diagnostic], source: SourceFile) -> list[Diagnostic]:
    """What remains after the comments of the file. A comment on a line of its own speaks for the next line."""
    directives = [d for d in source.directives if d.kind in ("ignore", "ignore-file")]
    if not directives:
        return list(diagnostics)
    return [d for d in diagnostics if d.span.path != source.path or not any(_covers(i, d, source) for i in directives)]


def _covers(directive: Directive, diagnostic: Diagnostic, source: SourceFile) -> bool:
    if (
        directive.kind == "ignore"
        and diagnostic.span.line not in _lines(directive, source)
        and diagnostic.span.end_line != directive.line
    ):
        return False
    wanted = selectors(directive)
    return not wanted or any(selects(s, BY_CODE[diagnostic.code]) for s in wanted)


def _lines(directive: Directive, source: SourceFile) -> tuple[int, ...]:
    text = source.lines[directive.line - 1] if directive.line <= len(source.lines) else ""
    return (directive.line, directive.line + 1) if text.lstrip().startswith("#") else (directive.line,)
