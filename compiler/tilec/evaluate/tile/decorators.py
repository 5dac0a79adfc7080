"""Applying decorators to functions."""
from __future__ import annotations

import ast
from typing import Any

from ..evaluator import Evaluator
from ..surroundings import required_kind
from ..values import Function, Native, is_unknown

_KINDS = {"staticmethod", "classmethod", "property", "contextmanager"}


def decorate(ev: Evaluator, decorator: Any, function: Any, node: ast.expr) -> Any:
    """``@decorator``. A decorator nothing is known about is taken to leave the function as it is."""
    name = _last_name(node)
    if name in _KINDS and isinstance(function, Function):
        function.kind = name
        return function
    if isinstance(function, Function) and required_kind(name) is not None:
        function.required = required_kind(name)
        return function
    if name == "setter" or is_unknown(decorator):
        return function
    if isinstance(decorator, Native) and decorator.name in ("wraps",):
        return function
    result = ev.call(decorator, [function], {}, None)
    if is_unknown(result) or result is None:
        return function
    if isinstance(result, Function) and result is not function and isinstance(function, Function) and _is_kernel(function):
        function.jit.setdefault("wrapped", True)
        return function
    return result


def _is_kernel(function: Function) -> bool:
    from .jit import has_inner_prim_func

    return function.kind in ("lazy", "eager", "prim_func", "macro") or has_inner_prim_func(function.node)


def _last_name(node: ast.expr) -> str:
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
