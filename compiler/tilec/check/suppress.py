"""``# tile-lsp: ignore[code]`` on a line and ``# tile-lsp: ignore-file[code]`` anywhere, and those that silence nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..source.directives import Directive
from ..source.file import SourceFile
from ..source.span import Span
from .diagnostic import Diagnostic, Edit, Fix
from .registry import BY_CODE, BY_NAME
from .settings import OFF, Settings, selects

_UNUSED = "unused-ignore"
_BRACKETS = re.compile(r"\[([^\]]*)\]")


def selectors(directive: Directive) -> tuple[str, ...]:
    """The codes or names in the brackets; empty for all rules."""
    match = _BRACKETS.match(directive.text)
    return tuple(s.strip() for s in match.group(1).split(",") if s.strip()) if match else ()


def ignores(source: SourceFile) -> list[Directive]:
    return [d for d in source.directives if d.kind in ("ignore", "ignore-file")]


def suppressed(diagnostics: Iterable[Diagnostic], source: SourceFile) -> list[Diagnostic]:
    """What remains after the comments of the file. A comment on a line of its own speaks for the next line."""
    directives = ignores(source)
    if not directives:
        return list(diagnostics)
    return [d for d in diagnostics if d.span.path != source.path or not any(_covers(i, d, source) for i in directives)]


def unused(diagnostics: Iterable[Diagnostic], source: SourceFile, settings: Settings) -> list[Diagnostic]:
    """The comments that silence none of ``diagnostics`` (taken before :func:`suppressed`), with the fix that removes them.

    What the settings leave out anyway is nothing that a comment could silence, so comments about it are not judged.
    """
    rule = BY_NAME[_UNUSED]
    severity = settings.severity(rule, rule.severity)
    directives = ignores(source)
    if severity == OFF or not settings.wants(rule) or not directives or source.syntax_errors:
        return []
    own = [d for d in diagnostics if d.span.path == source.path]
    found = []
    for directive in directives:
        idle = _idle(directive, own, source, settings)
        if idle is not None:
            span = Span(source.path, directive.line, directive.column, directive.line, directive.end_column)
            found.append(Diagnostic(rule.code, rule.name, severity, _message(idle), span, (), _removal(directive, idle, source)))
    return suppressed(found, source) if found else found


def _idle(directive: Directive, own: list[Diagnostic], source: SourceFile, settings: Settings) -> tuple[str, ...] | None:
    """The selectors of a directive that silence nothing; () for a whole comment without selectors; None if it is of use."""
    wanted = selectors(directive)
    covered = [d for d in own if _in_reach(directive, d, source)]
    if not wanted:
        return None if covered or settings.select else ()
    idle = tuple(s for s in wanted if not any(selects(s, BY_CODE[d.code]) for d in covered) and _is_judged(s, settings))
    return idle or None


def _is_judged(selector: str, settings: Settings) -> bool:
    """Whether the rules that a selector names were all asked for. One that names no rule never silences anything."""
    rules = [r for r in BY_NAME.values() if selects(selector, r)]
    return all(r.name != _UNUSED and settings.wants(r) and settings.severity(r, r.severity) != OFF for r in rules)


def _message(idle: tuple[str, ...]) -> str:
    unknown = [s for s in idle if not any(selects(s, r) for r in BY_NAME.values())]
    if unknown and len(unknown) == len(idle):
        return f"no rule is called {', '.join(unknown)}: the comment silences nothing"
    return f"the comment silences nothing: there is no {', '.join(idle) if idle else 'fault'} here"


def _removal(directive: Directive, idle: tuple[str, ...], source: SourceFile) -> Fix:
    """The comment without the selectors that do nothing; where none is left, without the comment."""
    kept = [s for s in selectors(directive) if s not in idle]
    line = source.lines[directive.line - 1]
    if kept:
        start = line.index("[", directive.column - 1)
        place = Span(source.path, directive.line, start + 2, directive.line, line.index("]", start) + 1)
        return Fix(f"Remove {', '.join(idle)} from the comment", (Edit(place, ", ".join(kept)),))
    before = line[: directive.column - 1]
    if before.strip():
        place = Span(source.path, directive.line, len(before.rstrip()) + 1, directive.line, len(line) + 1)
    else:
        place = Span(source.path, directive.line, 1, directive.line + 1, 1)
    return Fix("Remove the comment", (Edit(place, ""),))


def _covers(directive: Directive, diagnostic: Diagnostic, source: SourceFile) -> bool:
    if not _in_reach(directive, diagnostic, source):
        return False
    wanted = selectors(directive)
    if not wanted:
        return diagnostic.name != _UNUSED  # a comment about everything does not speak for itself
    return any(selects(s, BY_CODE[diagnostic.code]) for s in wanted)


def _in_reach(directive: Directive, diagnostic: Diagnostic, source: SourceFile) -> bool:
    return (
        directive.kind == "ignore-file"
        or diagnostic.span.line in _lines(directive, source)
        or diagnostic.span.end_line == directive.line
    )


def _lines(directive: Directive, source: SourceFile) -> tuple[int, ...]:
    text = source.lines[directive.line - 1] if directive.line <= len(source.lines) else ""
    return (directive.line, directive.line + 1) if text.lstrip().startswith("#") else (directive.line,)
