"""Names exported by a TileLang that has no shipped manifest, read from its sources without importing them."""

from __future__ import annotations

import ast
import re
from dataclasses import field
from pathlib import Path

from tilec.records import dataclass

from . import manifest
from .manifest import FACADE, Entry, Manifest

MAX_MODULES = 200  # a star import that leads further than this is no TileLang


@dataclass
class _Module:
    """What a module binds: name -> (module that defines it, signature or None)."""

    names: dict[str, Entry] = field(default_factory=dict)
    all: list[str] | None = None


class _Reader:
    def __init__(self, package: Path):
        self.root = package.parent
        self.modules: dict[str, _Module] = {}

    def module(self, dotted: str) -> _Module | None:
        if dotted in self.modules:
            return self.modules[dotted]
        path = self._file(dotted)
        if path is None or len(self.modules) > MAX_MODULES:
            return None
        found = self.modules[dotted] = _Module()  # entered before it is filled: imports may be circular
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, SyntaxError, ValueError):
            return found
        for node in _statements(tree.body):
            self._bind(node, found, dotted, path.name == "__init__.py")
        return found

    def _file(self, dotted: str) -> Path | None:
        base = self.root.joinpath(*dotted.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return path
        return None

    def _bind(self, node: ast.stmt, module: _Module, dotted: str, is_package: bool) -> None:
        if isinstance(node, ast.ImportFrom):
            self._import(node, module, _absolute(node, dotted, is_package))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                module.names[name] = Entry("module", alias.name, None, incidental=True)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            signature = ast.unparse(node.args) if not node.decorator_list else None
            module.names[node.name] = Entry("function", dotted, signature)
        elif isinstance(node, ast.ClassDef):
            module.names[node.name] = Entry("class", dotted, None)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id == "__all__":
                    module.all = _string_list(node.value)
                elif isinstance(target, ast.Name):
                    module.names[target.id] = self._assigned(node.value, module, dotted)

    def _assigned(self, value: ast.expr | None, module: _Module, dotted: str) -> Entry:
        """``new = old`` keeps what is known about ``old``."""
        if isinstance(value, ast.Name) and value.id in module.names:
            return module.names[value.id]
        return Entry("constant", dotted, None)

    def _import(self, node: ast.ImportFrom, module: _Module, source: str) -> None:
        follow = source.startswith("tilelang") and ("language" in source or any(a.name == "*" for a in node.names))
        origin = self.module(source) if follow else None  # elsewhere there is code, and no names that are exported by others
        for alias in node.names:
            if alias.name == "*":
                if origin is not None:
                    names = origin.all if origin.all is not None else [n for n in origin.names if not n.startswith("_")]
                    module.names.update({n: origin.names[n] for n in names if n in origin.names})
                continue
            known = origin.names.get(alias.name) if origin is not None else None
            module.names[alias.asname or alias.name] = known or Entry("function", source, None)


def _statements(body: list[ast.stmt]):
    """Module-level statements, those under ``if`` and ``try`` included."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body + [s for h in node.handlers for s in h.body] + node.orelse)


def _absolute(node: ast.ImportFrom, dotted: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    base = dotted.split(".")
    base = base[: len(base) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])


def _string_list(value: ast.expr | None) -> list[str] | None:
    """A literal ``__all__``; None if it is computed (then every public name counts)."""
    if isinstance(value, (ast.List, ast.Tuple)) and all(
        isinstance(e, ast.Constant) and isinstance(e.value, str) for e in value.elts
    ):
        return [e.value for e in value.elts]  # type: ignore[attr-defined,misc]
    return None


def read_package(package: Path, version: str) -> Manifest | None:
    """The manifest of the package at ``package`` (the folder ``tilelang``), None if it cannot be read.

    Names made at run time (data types, operators re-exported from TVM) cannot be seen in the sources. They are taken
    from the nearest shipped release as long as the sources still mention them.
    """
    reader = _Reader(package)
    module = reader.module(FACADE)
    if module is None or not module.names:
        return None
    near, newest = manifest.load(version), manifest.load("latest")
    words = _words(package)
    language = {
        n: e for n, e in near.language.items() if n in words or n in module.names or not e.module.startswith("tilelang")
    }
    for name, entry in newest.language.items():  # a tree may be ahead of the version it calls itself
        if name in words and name not in language:
            language[name] = entry._replace(signature=None)
    for name, entry in module.names.items():
        if not name.startswith("__"):
            language[name] = _better(entry, language.get(name))
    top_level = {**{n: e._replace(signature=None) for n, e in newest.top_level.items()}, **near.top_level}
    return Manifest(version, language, top_level, dict(near.elsewhere_in), pass_config_keys(package) or dict(near.pass_config_keys), str(package))


def pass_config_keys(package: Path) -> dict[str, str]:
    """The members of ``PassConfigKey`` and their texts, empty if they are not found."""
    try:
        tree = ast.parse((package / "transform" / "pass_config.py").read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return {}
    members = (s for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "PassConfigKey" for s in c.body)
    return {
        s.targets[0].id: s.value.value
        for s in members
        if isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and isinstance(s.value, ast.Constant)
        and isinstance(s.value.value, str)
    }


def _better(read: Entry, shipped: Entry | None) -> Entry:
    if shipped is None:
        return read
    return Entry(shipped.kind, read.module, read.signature, shipped.incidental)


def _words(package: Path) -> frozenset[str]:
    found: set[str] = set()
    for path in package.rglob("*.py"):
        if "language" not in path.parts and path.name != "dtypes.py":
            continue
        try:
            found.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
        except OSError:
            continue
    return frozenset(found)
