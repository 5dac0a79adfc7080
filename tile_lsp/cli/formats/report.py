"""What there is to tell about a run of ``check``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import TextIO

from tilec.check.diagnostic import ERROR, INFORMATION, WARNING, Diagnostic
from tilec.records import dataclass

from ..checking import notebook
from ..checking.result import FileResult


@dataclass
class Report:
    """``texts``: of files that are not on disk (standard input)."""

    results: list[FileResult] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    colour: bool = False
    excluded: int = 0  # files that the configuration leaves out

    @cached_property
    def diagnostics(self) -> list[Diagnostic]:
        """In the order of the files; what two files tell of a third one, once."""
        seen: dict[tuple[object, ...], Diagnostic] = {}
        for result in self.results:
            for d in result.diagnostics:
                seen.setdefault((d.code, d.span.path, d.span.line, d.span.column, d.message), d)
        return list(seen.values())

    def leave_out_hints(self) -> None:
        for result in self.results:
            result.diagnostics = [d for d in result.diagnostics if d.severity != INFORMATION]

    @cached_property
    def failures(self) -> list[str]:
        return [r.failure for r in self.results if r.failure]

    @property
    def files(self) -> list[FileResult]:
        """What was checked; one that could not be fixed was."""
        return [r for r in self.results if not r.failure or r.uses_tilelang]

    @property
    def has_findings(self) -> bool:
        return any(d.severity != INFORMATION for d in self.diagnostics)

    @property
    def versions(self) -> list[str]:
        return list(dict.fromkeys(r.version for r in self.results if r.version))

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        return {}

    def lines(self, path: str) -> list[str]:
        """The lines of a file or notebook cell; none if it cannot be read any more."""
        if path not in self._lines:
            self._lines[path] = self._read(path)
        return self._lines[path]

    def _read(self, path: str) -> list[str]:
        from ...ide.document import Document
        from ..checking.files import Unreadable, read_text

        file, number = notebook.split_path(path)
        try:
            text = self.texts[file] if file in self.texts else read_text(file)
            if number is None:
                return Document(file, text).lines
            return next((c.lines for c in notebook.parse(file, text).cells if c.number == number), [])
        except Unreadable:
            return []


def wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def shown_path(path: str) -> str:
    """Relative to the working folder where the file lies below it."""
    absolute, here = os.path.abspath(path), os.getcwd()
    return os.path.relpath(absolute, here) if absolute.startswith(here + os.sep) else path


def count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def severities(report: Report) -> str:
    """"2 errors, 1 hint", "" without any."""
    numbers = Counter(d.severity for d in report.diagnostics)
    named = ((ERROR, "error"), (WARNING, "warning"), (INFORMATION, "hint"))
    return ", ".join(count(numbers[s], noun) for s, noun in named if numbers[s])


def fixable(report: Report) -> Iterator[tuple[bool, Diagnostic]]:
    """Diagnostics with a fix, and whether it is safe."""
    for d in report.diagnostics:
        if d.fix is not None and d.fix.edits:
            yield d.fix.safe, d


def statistics(report: Report) -> str:
    """Findings by rule, and how many kernels were wholly known."""
    counts = Counter((d.code, d.name) for d in report.diagnostics)
    lines = [f"{n:5} {code} {name}" for (code, name), n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    kernels = sum(r.kernels for r in report.results)
    if kernels:
        analysed = sum(r.analysed for r in report.results)
        lines.append(f"{analysed} of {count(kernels, 'kernel')} wholly analysed ({analysed / kernels:.1%})")
        reasons = Counter(reason for r in report.results for _, reason in r.gaps)
        example = {reason: f"{shown_path(r.path)}::{kernel}" for r in reversed(report.results) for kernel, reason in reversed(r.gaps)}
        lines += [f"{n:5} {reason} ({example[reason]}{' and others' if n > 1 else ''})" for reason, n in reasons.most_common()]
    return "\n".join(lines)


def output(text: str, stream: TextIO | None = None) -> None:
    """Text that a stream's encoding may lack characters of."""
    stream = stream or sys.stdout
    try:
        print(text, file=stream)
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream)
