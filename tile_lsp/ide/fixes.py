"""Quick fixes of diagnostics, leaving a rule out, all safe fixes at once, and what can be done with the kernel at a place."""
from __future__ import annotations

from typing import Any

from tilec.check.diagnostic import Diagnostic, Edit
from tilec.records import dataclass
from tilec.source.span import Span

from .lenses import COMPARE, RUN, SHOW_LOWERED
from .snapshot import Snapshot

_ORACLES = (("interpreter", "the tile interpreter"), ("reference", "its reference function"), ("tilelang", "the project's TileLang"))
QUICK, ALL, COMMAND = "quickfix", "source.fixAll.tile-lsp", ""


@dataclass(frozen=True)
class Action:
    """Either edits (``kind``: a quick fix or all fixes) or a command. ``preferred``: it repairs the fault, rather than hiding it."""

    title: str
    edits: tuple[Edit, ...] = ()
    diagnostic: Diagnostic | None = None
    preferred: bool = False
    command: str = ""
    arguments: dict[str, Any] | None = None
    kind: str = QUICK


def actions(snapshot: Snapshot, first_line: int, last_line: int) -> list[Action]:
    """What is offered for a range of lines."""
    found: list[Action] = []
    here = [d for d in snapshot.diagnostics() if d.span.path == snapshot.source.path and d.span.line <= last_line and d.span.end_line >= first_line]
    seen = set()
    for diagnostic in here:
        edits = _own_edits(snapshot, diagnostic)
        key = (diagnostic.fix.title if diagnostic.fix else "", edits)
        if diagnostic.fix is None or not edits or key in seen:
            continue  # no fix, an edit in another file, or the same fix for another instance
        seen.add(key)
        found.append(Action(diagnostic.fix.title, edits, diagnostic, preferred=True))
    found += _ignores(snapshot, here)
    everything = all_fixes(snapshot)
    if everything and here:
        found.append(Action("Apply all safe fixes of tile-lsp in this file", everything, kind=ALL))
    return found + _of_kernel(snapshot, first_line)


def all_fixes(snapshot: Snapshot) -> tuple[Edit, ...]:
    """The edits of every safe fix in the file; of overlapping ones the first."""
    found: list[Edit] = []
    for diagnostic in snapshot.diagnostics():
        if diagnostic.fix is None or not diagnostic.fix.safe:
            continue
        edits = [e for e in _own_edits(snapshot, diagnostic) if e not in found]
        if edits and not any(_overlap(a.span, b.span) for a in edits for b in found):
            found += edits
    return tuple(found)


def _own_edits(snapshot: Snapshot, diagnostic: Diagnostic) -> tuple[Edit, ...]:
    """The edits of a fix, none if some of them are in another file."""
    edits = diagnostic.fix.edits if diagnostic.fix is not None else ()
    return edits if all(e.span.path == snapshot.source.path for e in edits) else ()


def _overlap(a: Span, b: Span) -> bool:
    return (a.line, a.column) < (b.end_line, b.end_column) and (b.line, b.column) < (a.end_line, a.end_column) or a.start() == b.start()


def _ignores(snapshot: Snapshot, diagnostics: list[Diagnostic]) -> list[Action]:
    """A comment at the end of the line; not where the line ends inside a string or goes on behind a backslash."""
    found = []
    for diagnostic in {(d.code, d.span.line): d for d in diagnostics if d.code != "TL001"}.values():
        line = diagnostic.span.line
        text = snapshot.source.lines[line - 1].rstrip()
        if "#" in text or text.endswith("\\") or text.count('"""') % 2 or text.count("'''") % 2:
            continue
        end = len(text) + 1
        edit = Edit(Span(snapshot.source.path, line, end, line, len(snapshot.source.lines[line - 1]) + 1), f"  # tile-lsp: ignore[{diagnostic.code}]")
        found.append(Action(f"Ignore {diagnostic.code} ({diagnostic.name}) in this line", (edit,), diagnostic))
    return found


def _of_kernel(snapshot: Snapshot, line: int) -> list[Action]:
    kernel = snapshot.kernel_at(line)
    instance = snapshot.instance(kernel) if kernel is not None else None
    if kernel is None or instance is None:
        return []
    arguments = {"kernel": kernel.qualname, "instance": instance.text}
    compare = [Action(f"Compare {kernel.name} with {words}", command=COMPARE, arguments={**arguments, "against": oracle}, kind=COMMAND)
               for oracle, words in _ORACLES if oracle != "tilelang" or snapshot.environment.sources is not None]
    return [Action(f"Compile and run {kernel.name}", command=RUN, arguments=arguments, kind=COMMAND), *compare,
            Action(f"Show the CUDA code of {kernel.name}", command=SHOW_LOWERED, arguments={**arguments, "stage": "cuda", "line": line}, kind=COMMAND)]
