"""Diagnostics for people and programs: full (source line and underline), concise (one line each), JSON."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

from tilec.check.diagnostic import Diagnostic
from tilec.source.span import Span

FORMATS = ("full", "concise", "json")
_COLOURS = {"error": "31", "warning": "33", "information": "36"}
Sources = Mapping[str, Sequence[str]]  # path -> lines


def wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def shown_path(path: str) -> str:
    """Relative to the working folder where the file lies below it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(absolute, here) if absolute.startswith(here + os.sep) else path


def json_text(diagnostics: Sequence[Diagnostic]) -> str:
    return json.dumps([d.to_json() for d in diagnostics], indent=2, ensure_ascii=False)


def concise(d: Diagnostic) -> str:
    return f"{shown_path(d.span.path)}:{d.span.line}:{d.span.column}: {d.severity} {d.code} {d.message} [{d.name}]"


class FullText:
    """The long form, with the source line underlined."""

    def __init__(self, sources: Sources, colour: bool):
        self.sources, self.colour = sources, colour

    def paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.colour else text

    def render(self, d: Diagnostic) -> str:
        head = self.paint(f"{d.severity}[{d.code}]", f"1;{_COLOURS[d.severity]}")
        lines = [f"{head} {self.paint(d.message, '1')}", self._excerpt(d.span, _COLOURS[d.severity])]
        margin = " " * len(str(d.span.line))
        for related in d.related:
            lines.append(
                f"{margin} = {related.message}: "
                f"{shown_path(related.span.path)}:{related.span.line}:{related.span.column}{self._quoted(related.span)}"
            )
        if d.span.caller is not None:
            outer = d.span.outermost()
            lines.append(
                f"{margin} = reached from {shown_path(outer.path)}:{outer.line}:{outer.column}{self._quoted(outer)}"
            )
        if d.fix is not None:
            lines.append(f"{margin} = {self.paint('fix', '32')}: {d.fix.title}")
        if d.kernel:
            lines.append(f"{margin} = in {d.kernel}" + (f", instance {d.instance}" if d.instance else ""))
        lines.append(f"{margin} = {d.name}; see: tile-lsp rule {d.code}")
        return "\n".join(lines)

    def _line(self, span: Span, number: int) -> str | None:
        lines = self.sources.get(span.path)
        return lines[number - 1] if lines is not None and 0 < number <= len(lines) else None

    def _excerpt(self, span: Span, colour: str) -> str:
        margin = " " * len(str(span.line))
        place = f"{margin}--> {shown_path(span.path)}:{span.line}:{span.column}"
        text = self._line(span, span.line)
        if text is None:
            return place
        end = span.end_column if span.end_line == span.line else len(text) + 1
        before = "".join(
            c if c == "\t" else " " for c in text[: span.column - 1]
        )  # tabs stay tabs, so that the caret stands right
        mark = self.paint("^" * max(end - span.column, 1), f"1;{colour}")
        return f"{place}\n{margin} |\n{span.line} | {text}\n{margin} | {before}{mark}"

    def _quoted(self, span: Span) -> str:
        text = self._line(span, span.line)
        return f"  `{text.strip()}`" if text and len(text.strip()) <= 100 else ""


def statistics(diagnostics: Sequence[Diagnostic]) -> str:
    counts = Counter((d.code, d.name) for d in diagnostics)
    return "\n".join(
        f"{n:5} {code} {name}" for (code, name), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def summary(diagnostics: Sequence[Diagnostic], files: int, kernels: int, instances: int, version: str) -> str:
    """One line about the whole run."""
    what = f"{count(files, 'file')}, {count(kernels, 'kernel')}, {count(instances, 'instance')}, TileLang {version}"
    numbers = Counter(d.severity for d in diagnostics)
    if not diagnostics:
        return f"No faults found ({what})."
    parts = [
        count(numbers[s], name)
        for s, name in (("error", "error"), ("warning", "warning"), ("information", "hint"))
        if numbers[s]
    ]
    return f"Found {', '.join(parts)} ({what})."


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def write(text: str, stream: TextIO | None = None) -> None:
    print(text, file=stream or sys.stdout)
