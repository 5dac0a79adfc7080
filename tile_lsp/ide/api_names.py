"""Which of TileLang's modules a written prefix stands for: ``T`` in ``T.copy``."""
from __future__ import annotations

import ast
import re

from tilec.evaluate.values import Api, Module

from .snapshot import Snapshot

FACADE = "tilelang.language"
_IMPORT = re.compile(r"^\s*import\s+(tilelang(?:\.\w+)*)(?:\s+as\s+(\w+))?", re.MULTILINE)
_FROM = re.compile(r"^\s*from\s+tilelang\s+import\s+language(?:\s+as\s+(\w+))?", re.MULTILINE)


def module_of(snapshot: Snapshot, prefix: str) -> str | None:
    """The dotted module that a dotted name means; None for what is no module of TileLang."""
    if not prefix:
        return None
    head, *rest = prefix.split(".")
    start = _evaluated(snapshot, head) or aliases(snapshot).get(head)
    if start is None:
        return None
    module = ".".join((start, *rest))
    return module if module in ("tilelang", FACADE) else None


def api_of(snapshot: Snapshot, dotted: str) -> tuple[str, str] | None:
    """Module and name of a dotted name of the API as written (``T.gemm``, or ``gemm`` imported from the module)."""
    prefix, _, name = dotted.rpartition(".")
    if prefix:
        module = module_of(snapshot, prefix)
        return (module, name) if module is not None else None
    scope = snapshot.analysis.scope
    value = scope.names.get(name) if scope is not None else None
    return (value.module, value.name) if isinstance(value, Api) else None


def _evaluated(snapshot: Snapshot, name: str) -> str | None:
    """What the file's own evaluation made of a name: sees through re-exports and wrappers."""
    scope = snapshot.analysis.scope
    value = scope.names.get(name) if scope is not None else None
    return value.name if isinstance(value, Module) and value.name.startswith("tilelang") else None


def aliases(snapshot: Snapshot) -> dict[str, str]:
    """Names bound to TileLang's modules by import statements anywhere in the file, half typed ones included."""
    found: dict[str, str] = {}
    for node in ast.walk(snapshot.source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "tilelang":
                    found[alias.asname or "tilelang"] = alias.name if alias.asname else "tilelang"
        elif isinstance(node, ast.ImportFrom) and node.module == "tilelang" and not node.level:
            found.update({a.asname or a.name: FACADE for a in node.names if a.name == "language"})
    for match in _IMPORT.finditer(snapshot.source.text):
        found.setdefault(match.group(2) or "tilelang", match.group(1) if match.group(2) else "tilelang")
    for match in _FROM.finditer(snapshot.source.text):
        found.setdefault(match.group(1) or "language", FACADE)
    return found
