"""Kernel texts for the tests of the editor features."""
from __future__ import annotations

from pathlib import Path

WORKSPACE = Path(__file__).parent / "editors" / "workspace"
MATMUL = (WORKSPACE / "matmul.py").read_text(encoding="utf-8")
FAULTY = (WORKSPACE / "faulty.py").read_text(encoding="utf-8")


def place(text: str, needle: str, offset: int = 0) -> tuple[int, int]:
    """Line and column (from 1) of a piece of text."""
    before = text[:text.index(needle) + offset]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
