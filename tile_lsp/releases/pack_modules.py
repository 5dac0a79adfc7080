"""Add the functions and classes of some of TileLang's modules to a shipped manifest, read from a release's sources.

    python -m tile_lsp.releases.pack_modules VERSION PACKAGE_DIR

PACKAGE_DIR is the folder ``tilelang`` of that release. Nothing is imported. What is decorated, or comes from elsewhere, has no signature.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from .pack import MANIFESTS, write

MODULES = ("tilelang.profiler", "tilelang.testing", "tilelang.layout")
Known = dict[str, list[Any]]


def names_of(package: Path, dotted: str, known: dict[str, Known]) -> Known:
    """The names a module binds: ``[kind, defining module, signature]`` as in a manifest. ``known``: modules read before."""
    if dotted in known:
        return known[dotted]
    path = _file(package, dotted)
    found: Known = known.setdefault(dotted, {})  # entered before it is filled: imports may be circular
    if path is None:
        return found
    for node in _statements(ast.parse(path.read_text(encoding="utf-8", errors="replace")).body):
        if isinstance(node, ast.ImportFrom):
            source = _absolute(node, dotted, path.name == "__init__.py")
            origin = names_of(package, source, known) if source.startswith("tilelang.") else {}
            for alias in node.names:
                if alias.name != "*":
                    found[alias.asname or alias.name] = origin.get(alias.name, ["k", source, None])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = ["f", dotted, ast.unparse(node.args) if not node.decorator_list else None]
        elif isinstance(node, ast.ClassDef):
            found[node.name] = ["c", dotted, _constructor(node)]
        elif isinstance(node, ast.Import):
            found.update({a.asname or a.name.split(".")[0]: ["m", a.name, None] for a in node.names})
        elif isinstance(node, ast.Assign):
            found.update({t.id: ["k", dotted, None] for t in node.targets if isinstance(t, ast.Name)})
    return found


def _constructor(node: ast.ClassDef) -> str | None:
    """The parameters of an ``__init__`` of the class's own, without self."""
    for s in node.body:
        if isinstance(s, ast.FunctionDef) and s.name == "__init__" and not s.decorator_list and not node.decorator_list and s.args.args:
            del s.args.args[0]
            return ast.unparse(s.args)
    return None


def _statements(body: list[ast.stmt]):
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try)):
            yield from _statements(node.body)


def _file(package: Path, dotted: str) -> Path | None:
    base = package.parent.joinpath(*dotted.split("."))
    return next((p for p in (base / "__init__.py", base.with_suffix(".py")) if p.is_file()), None)


def _absolute(node: ast.ImportFrom, dotted: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = dotted.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def main(version: str, package: Path) -> None:
    path = MANIFESTS / f"{version}.json"
    data = json.loads(path.read_text())
    known: dict[str, Known] = {}
    data["modules"] = {
        m: {n: e for n, e in names_of(package, m, known).items() if not n.startswith("_")} for m in MODULES
    }
    write(path, data)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
