"""The outputs of ``tile-lsp check``: one module a format, loaded when it is asked for. Each has ``render(report) -> str``.
May import: ide, tilec."""

from __future__ import annotations

import importlib

from .report import Report

# For people, and for programs (whose output is the document alone).
TEXTS = ("full", "concise")
DOCUMENTS = ("json", "sarif", "github", "gitlab", "junit")
FORMATS = (*TEXTS, *DOCUMENTS)


def render(name: str, report: Report) -> str:
    """The report as text, "" for nothing."""
    module = importlib.import_module(f".{'json_list' if name == 'json' else name}", __package__)
    return module.render(report)
