"""``# tile-lsp: ignore[code]`` on a line and ``# tile-lsp: ignore-file[code]`` anywhere, and those that silence nothing."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterable

from ..source.directives import KINDS, Directive
from ..source.file import SourceFile
from ..source.span import Span
from .diagnostic import Diagnostic, Edit, Fix
from .registry import BY_CODE, BY_NAME
from .settings import OFF, Settings, near_selectors, selects, unknown_selectors

_UNUSED = "unused-ignore"
_BRACKETS = re.compile(r"\[([^\]]*)")
_PARENTHESES = re.compile(r"\(([^)]*)")
_CODE = re.compile(r"\bTL\d+\b", re.IGNORECASE)
_KIND = re.compile(r"#\s*tile-lsp:\s*([A-Za-z_-]+)")


def selectors(directive: Directive) -> tuple[str, ...]:
    """The codes or names in the brackets; empty for all rules. Without brackets: what the text evidently names."""
    match = _BRACKETS.match(directive.text)
    if match:
        return _parts(match.group(1))
    match = _PARENTHESES.match(directive.text)
    if match:
        listed = _parts(match.group(1))
        return listed if all(_CODE.fullmatch(s) or _is_known(s) or (" " not in s and near_selectors(s)) for s in listed) else ()
    codes = _CODE.findall(directive.text)
    if codes:
        return tuple(codes)
    words = [w for w in re.split(r"[\s,;:]+", directive.text) if w]
    names = tuple(itertools.takewhile(lambda w: "-" in w and (_is_known(w) or near_selectors(w)), words))
    return names or (tuple(words) if all(map(_is_known, words)) else ())


def _parts(text: str) -> tuple[str, ...]:
    return tuple(s.strip() for s in text.split(",") if s.strip())


def _is_known(selector: str) -> bool:
    return not unknown_selectors([selector])


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


def misspelt(source: SourceFile, settings: Settings) -> list[Diagnostic]:
    """Comments whose word is evidently meant to be one of ours: they do nothing, and nobody would notice."""
    rule = BY_NAME[_UNUSED]
    severity = settings.severity(rule, rule.severity)
    strange = [d for d in source.directives if d.kind not in KINDS]
    if severity == OFF or not settings.wants(rule) or not strange:
        return []
    found = []
    for d in strange:
        near = difflib.get_close_matches(d.kind.lower(), KINDS, n=1, cutoff=0.75)
        if not near and not d.text.startswith("["):
            continue  # a note
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        span = Span(source.path, d.line, d.column, d.line, d.end_column)
        fix = None
        match = _KIND.match(source.lines[d.line - 1], d.column - 1)
        if near and match:
            word = Span(source.path, d.line, match.start(1) + 1, d.line, match.end(1) + 1)
            fix = Fix(f"Write {near[0]}", (Edit(word, near[0]),), safe=False)
        found.append(Diagnostic(rule.code, rule.name, severity, f"{d.kind} is no comment that tile-lsp knows: it does nothing; {hint}", span, (), fix))
    return suppressed(found, source)


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
        near = _near(unknown[0])
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return f"no rule is called {', '.join(unknown)}: the comment silences nothing{hint}"
    return f"the comment silences nothing: there is no {', '.join(idle) if idle else 'fault'} here"


def _near(selector: str) -> list[str]:
    """Names that a selector may have meant. Every code is near to others."""
    return [] if _CODE.fullmatch(selector) else near_selectors(selector)


def _removal(directive: Directive, idle: tuple[str, ...], source: SourceFile) -> Fix | None:
    """The comment with the name that was meant, or without the selectors that do nothing; where none is left, without the comment."""
    near = _near(idle[0]) if len(idle) == 1 and not _is_known(idle[0]) else []
    if near:
        line = source.lines[directive.line - 1]
        word = _KIND.match(line, directive.column - 1)
        column = line.index(idle[0], word.end() if word else directive.column) + 1
        place = Span(source.path, directive.line, column, directive.line, column + len(idle[0]))
        return Fix(f"Write {near[0]}", (Edit(place, near[0]),), safe=False)
    kept = [s for s in selectors(directive) if s not in idle]
    line = source.lines[directive.line - 1]
    if kept:
        listed = re.compile(r"[\[(]([^\])]*)").search(line, directive.column - 1) if directive.text.startswith(("[", "(")) else None
        if listed is None:
            return None
        place = Span(source.path, directive.line, listed.start(1) + 1, directive.line, listed.end(1) + 1)
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
