"""Where the sizes of an eager kernel (T.const) stand in its text."""
from __future__ import annotations

import ast

from ..records import dataclass
from ..source.file import SourceFile
from ..source.nodes import walk


@dataclass(slots=True)
class _Places:
    """``variables``: by the name that T.const is given, the variables that hold it. ``alone``: names that are an element of some
    tuple, list or subscript by themselves. ``open``: a starred element stands in one, which may be any of them."""

    variables: dict[str, set[str]]
    alone: set[str]
    open: bool


def stands_in_a_shape(source: SourceFile, function: ast.FunctionDef, name: str) -> bool:
    """Whether the variable that T.const gives a value is an element of some tuple, list or subscript by itself."""
    places = source.remembered("const places", function, lambda: _places(function))
    return places.open or name in places.alone or not places.alone.isdisjoint(places.variables.get(name, ()))


def _places(function: ast.FunctionDef) -> _Places:
    variables: dict[str, set[str]] = {}
    elements: list[ast.expr] = []
    for node in walk(function):
        if isinstance(node, (ast.Tuple, ast.List)):
            elements += node.elts if isinstance(node.ctx, ast.Load) else ()
        elif isinstance(node, ast.Subscript):
            elements.append(node.slice)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            for variable, name in _named(node.targets[0], node.value):
                variables.setdefault(name, set()).add(variable)
    return _Places(variables, {e.id for e in elements if isinstance(e, ast.Name)}, any(isinstance(e, ast.Starred) for e in elements))


def _named(target: ast.expr, call: ast.Call) -> list[tuple[str, str]]:
    """Variables with the names that a text gives them: ``m, n = T.const("M, N")``."""
    text = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    names = text.replace(",", " ").split() if isinstance(text, str) else []
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    return [(t.id, n) for t, n in zip(targets, names) if isinstance(t, ast.Name)]
