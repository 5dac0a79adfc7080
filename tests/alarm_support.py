"""What the checker says about a small program, for the tests of false alarms."""

from __future__ import annotations

from tilec.check import check_analysis
from tilec.check.diagnostic import INFORMATION, Diagnostic
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

HEAD = "import pytest\nimport tilelang\nimport tilelang.testing\nimport tilelang.language as T\nfrom tilelang import tvm\n\n"


def diagnostics(text: str) -> list[Diagnostic]:
    return check(text, DECLARED)


def check(text: str, targets, explicit: bool = False, version: str = "0.1.15") -> list[Diagnostic]:
    """Errors and warnings about a file."""
    return [d for d in everything(HEAD + text, targets, explicit, version) if d.severity != INFORMATION]


def everything(text: str, targets, explicit: bool = False, version: str = "0.1.15") -> list[Diagnostic]:
    """Hints as well. The text is the whole file."""
    return check_analysis(analyse(SourceFile("case.py", text)), [find(t) for t in targets], manifest.load(version), explicit=explicit)
