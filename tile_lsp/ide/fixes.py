"""Quick fixes of diagnostics, and what can be done with the kernel at a place."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilec.check.diagnostic import Diagnostic, Edit

from .lenses import RUN, SHOW_LOWERED
from .snapshot import Snapshot


@dataclass(frozen=True)
class Action:
    """Either edits (a quick fix) or a command."""

    title: str
    edits: tuple[Edit, ...] = ()
    diagnostic: Diagnostic | None = None
    preferred: bool = False
    command: str = ""
    arguments: dict[str, Any] | None = None


def actions(snapshot: Snapshot, first_line: int, last_line: int) -> list[Action]:
    """What is offered for a range of lines."""
    found: list[Action] = []
    seen = set()
    for diagnostic in snapshot.diagnostics():
        if diagnostic.fix is None or diagnostic.span.line > last_line or diagnostic.span.end_line < first_line:
            continue
        edits = tuple(e for e in diagnostic.fix.edits if e.span.path == snapshot.source.path)
        key = (diagnostic.fix.title, edits)
        if len(edits) != len(diagnostic.fix.edits) or key in seen:
            continue  # an edit in another file, or the same fix for another instance
        seen.add(key)
        found.append(Action(diagnostic.fix.title, edits, diagnostic, diagnostic.fix.safe))
    kernel = snapshot.kernel_at(first_line)
    instance = snapshot.instance(kernel) if kernel is not None else None
    if kernel is not None and instance is not None:
        arguments = {"kernel": kernel.qualname, "instance": instance.text}
        found.append(Action(f"Compile and run {kernel.name}", command=RUN, arguments=arguments))
        found.append(Action(f"Show the CUDA code of {kernel.name}", command=SHOW_LOWERED, arguments={**arguments, "stage": "cuda", "line": first_line}))
    return found
