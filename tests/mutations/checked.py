"""What the project's checker says about a mutant."""

from __future__ import annotations

from tilec.check import check_analysis
from tilec.check.diagnostic import Diagnostic
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import find

from tile_lsp.releases import manifest

VERSION = "0.1.15"


def reports(text: str, target: str) -> list[Diagnostic]:
    """Errors and warnings, for the mutant's chip alone."""
    analysis = analyse(SourceFile("mutant.py", text))
    found = check_analysis(analysis, [find(target)], manifest.load(VERSION), explicit=True)
    return [d for d in found if d.severity in ("error", "warning")]


def hits(found: list[Diagnostic], lines: set[int]) -> bool:
    """Whether a report touches a statement it belongs to. A range that covers many lines counts by its first."""
    return any(d.span.line in lines for d in found)


def shown(found: list[Diagnostic]) -> str:
    return "; ".join(f"{d.span.line} {d.name} ({d.severity}): {d.message[:120]}" for d in found) or "nothing"
