"""Comments addressed to this tool: ``# tile-lsp: instance M=1024``, ``ignore[code]``, ``ignore-file``, ``reference=name``."""
from __future__ import annotations

import re

from ..records import dataclass

_DIRECTIVE = re.compile(r"#\s*tile-lsp:\s*(?P<kind>[A-Za-z_-]+)\s*(?P<rest>[=:\[( ].*)?$")
KINDS = ("instance", "ignore", "ignore-file", "reference", "inputs")


@dataclass(frozen=True, slots=True)
class Directive:
    """``kind``: one of :data:`KINDS`, or what was written instead; ``text``: what follows it."""

    kind: str
    text: str
    line: int
    column: int  # of the '#'
    end_column: int


def find_directives(text: str) -> list[Directive]:
    """All directives, in order. A quick search decides whether lines are looked at at all."""
    if "tile-lsp:" not in text:
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if "tile-lsp:" not in line:
            continue
        match = _DIRECTIVE.search(line)
        if match is None or line[:match.start()].count('"') % 2 or line[:match.start()].count("'") % 2:
            continue  # inside a string
        rest = (match.group("rest") or "").strip().lstrip("=:").strip()
        found.append(Directive(match.group("kind"), rest, number, match.start() + 1, len(line) + 1))
    return found
