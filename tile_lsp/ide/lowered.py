"""Lowered views: the text of a stage with the source line of each of its lines."""
from __future__ import annotations

from dataclasses import field
from typing import Any

from tilec.records import dataclass

STAGES = ("tile", "legalized", "thread", "host", "device", "cuda", "ptx", "sass")  # of a kernel for a GPU, in order
RESOURCES = "resources"  # a stage without a text: what the compiled kernel needs
LANGUAGES = {"tile": "python", "legalized": "python", "thread": "python", "host": "python", "device": "python", "cuda": "cuda-cpp", "ptx": "asm",
             "sass": "asm", "llvm": "llvm"}
SUFFIXES = {"tile": ".py", "legalized": ".py", "thread": ".py", "host": ".py", "device": ".py", "cuda": ".cu", "ptx": ".ptx", "sass": ".sass", "llvm": ".ll"}


@dataclass(frozen=True)
class LoweredView:
    """``lines``: (first line, last line, source line) of runs of the text, lines from 1; ``error`` instead of a text."""

    kernel: str
    instance: str
    target: str
    stage: str
    text: str = ""
    lines: tuple[tuple[int, int, int], ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def title(self) -> str:
        return f"{self.kernel} · {self.stage} · {self.target}"

    @property
    def file_name(self) -> str:
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in self.kernel) or "kernel"
        return f"{safe}.{self.target}.{self.stage}{SUFFIXES.get(self.stage, '.txt')}"

    def lines_of(self, first: int, last: int) -> list[str]:
        """The lines that source lines ``first`` to ``last`` became, in the order of the text; "…" between pieces."""
        text = self.text.split("\n")
        pieces: list[str] = []
        previous = 0
        for start, end, source_line in sorted(self.lines):
            if not first <= source_line <= last:
                continue
            if pieces and start > previous + 1:
                pieces.append("…")
            pieces += text[max(start, previous + 1) - 1:end]
            previous = max(previous, end)
        return pieces


def view_from_reply(reply: dict[str, Any], kernel: str, instance: str, target: str, stage: str) -> LoweredView:
    """A worker's answer as a view."""
    if reply.get("error"):
        return LoweredView(kernel, instance, target, stage, error=" ".join(str(reply["error"]).split()))
    lines = tuple((int(a), int(b), int(c)) for a, b, c in reply.get("lines") or ())
    return LoweredView(kernel, instance, target, stage, str(reply.get("text", "")), lines, dict(reply.get("facts") or {}))


def dedent(lines: list[str]) -> list[str]:
    """Lines without the indentation they share."""
    depth = min((len(t) - len(t.lstrip()) for t in lines if t.strip() and t != "…"), default=0)
    return [t if t == "…" else t[depth:] for t in lines]
