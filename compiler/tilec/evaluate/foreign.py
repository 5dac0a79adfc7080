"""Functions in TVM's own script dialect (``from tvm.script import tirx as T``): they look like kernels and are none of TileLang's."""
from __future__ import annotations

import ast

from .blocks import statements_within
from .definitions import KernelDefinition
from .scope import Scope
from .tile.jit import _is_prim_func
from .values import Module


def is_foreign(definition: KernelDefinition, scope: Scope) -> bool:
    """Whether every prim_func of a definition is decorated by another language than TileLang's."""
    inside = [definition.node, *(s for s in statements_within(definition.node) if isinstance(s, ast.FunctionDef))]
    local = _local_imports(definition.node)
    dialects = [_dialect(d, scope, local) for f in inside for d in f.decorator_list if _is_prim_func(d)]
    return bool(dialects) and all(name is not None and name.startswith("tvm") for name in dialects)


def _local_imports(node: ast.FunctionDef) -> dict[str, str]:
    """Names that imports inside a function bind, with the module they come from."""
    found: dict[str, str] = {}
    for statement in statements_within(node):
        if isinstance(statement, ast.ImportFrom):
            found.update({a.asname or a.name: statement.module or "" for a in statement.names})
    return found


def _dialect(decorator: ast.expr, scope: Scope, local: dict[str, str]) -> str | None:
    """The module that a decorator's ``prim_func`` comes from, if an import in the function or the file's own scope binds its name."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    owner = target.value if isinstance(target, ast.Attribute) else None
    if not isinstance(owner, ast.Name):
        return None
    if owner.id in local:
        return local[owner.id]
    value = scope.names.get(owner.id)
    return value.name if isinstance(value, Module) else None
