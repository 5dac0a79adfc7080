"""The long form for people: the source line underlined, related places, the fix, the kernel and where to read on."""

from __future__ import annotations

from tilec.check.diagnostic import Diagnostic
from tilec.source.span import Span

from .report import Report, shown_path

_COLOURS = {"error": "31", "warning": "33", "information": "36"}


def render(report: Report) -> str:
    text = _FullText(report)
    return "".join(text.render(d) + "\n\n" for d in report.diagnostics)[:-1]


class _FullText:
    def __init__(self, report: Report):
        self.report = report

    def paint(self, text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if self.report.colour else text

    def render(self, d: Diagnostic) -> str:
        head = self.paint(f"{d.severity}[{d.code}]", f"1;{_COLOURS[d.severity]}")
        lines = [f"{head} {self.paint(d.message, '1')}", self._excerpt(d.span, _COLOURS[d.severity])]
        margin = " " * len(str(d.span.line))
        for related in d.related:
            lines.append(f"{margin} = {related.message}: {_place(related.span)}{self._quoted(related.span)}")
        if d.span.caller is not None:
            outer = d.span.outermost()
            lines.append(f"{margin} = reached from {_place(outer)}{self._quoted(outer)}")
        if d.fix is not None:
            label = "fix" if d.fix.safe else "fix (--unsafe-fixes)"
            lines.append(f"{margin} = {self.paint(label, '32')}: {d.fix.title}")
        if d.kernel:
            lines.append(f"{margin} = in {d.kernel}" + (f", instance {d.instance}" if d.instance else ""))
        lines.append(f"{margin} = {d.name}; see: tile-lsp rule {d.code}")
        return "\n".join(lines)

    def _line(self, span: Span) -> str | None:
        lines = self.report.lines(span.path)
        return lines[span.line - 1] if 0 < span.line <= len(lines) else None

    def _excerpt(self, span: Span, colour: str) -> str:
        margin = " " * len(str(span.line))
        place = f"{margin}--> {_place(span)}"
        text = self._line(span)
        if text is None:
            return place
        end = span.end_column if span.end_line == span.line else len(text) + 1
        # tabs stay tabs, so that the caret stands right
        before = "".join(c if c == "\t" else " " for c in text[: span.column - 1])
        mark = self.paint("^" * max(end - span.column, 1), f"1;{colour}")
        return f"{place}\n{margin} |\n{span.line} | {text}\n{margin} | {before}{mark}"

    def _quoted(self, span: Span) -> str:
        text = self._line(span)
        return f"  `{text.strip()}`" if text and len(text.strip()) <= 100 else ""


def _place(span: Span) -> str:
    return f"{shown_path(span.path)}:{span.line}:{span.column}"
