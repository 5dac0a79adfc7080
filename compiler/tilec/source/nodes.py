"""Walking over syntax nodes, several times as fast as :func:`ast.walk` because no field is asked for that cannot hold a node."""
from __future__ import annotations

import ast

_NO_NODES = frozenset((
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "lineno", "module", "name", "op", "ops", "rest", "simple", "tag",
    "type_comment", "type_ignores",
))
_fields: dict[type, tuple[str, ...]] = {ast.Constant: (), ast.Global: (), ast.Nonlocal: (), ast.MatchStar: (), ast.MatchSingleton: ()}


def _fields_of(kind: type) -> tuple[str, ...]:
    names = tuple(name for name in kind._fields if name not in _NO_NODES)  # type: ignore[attr-defined]
    _fields[kind] = names
    return names


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right inside a node in the order of its fields, without operators and contexts."""
    kind = node.__class__
    names = _fields.get(kind)
    found: list[ast.AST] = []
    for name in _fields_of(kind) if names is None else names:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += value if None not in value else [v for v in value if v is not None]
        elif value is not None:
            found.append(value)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """The node and all inside it, outer ones first, without operators and contexts."""
    found = [node]
    for inner in found:
        found += children(inner)
    return found
