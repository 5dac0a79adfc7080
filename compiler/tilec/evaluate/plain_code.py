"""Plain functions that a kernel calls. Python runs them as they are: only kernels and macros are rewritten, so that their loops, conditions
and stores become those of the device (tilelang/language/eager/ast.py, 0.1.15)."""
from __future__ import annotations

import ast
from typing import Any

from ..ir.expr import Expr, Load, Var, walk
from .evaluator import Evaluator
from .scope import Scope
from .values import Function

_ON_DEVICE = ("loop", "thread", "block", "let")


def plain_helper(function: Function) -> Function | None:
    """The function, if nothing may rewrite it: no decorator, and no kernel or macro around it."""
    if isinstance(function.node, ast.FunctionDef) and function.node.decorator_list:
        return None
    scope: Scope | None = function.scope
    while scope is not None:
        if scope.kind == "kernel":
            return None
        scope = scope.parent
    return function


def refuse(ev: Evaluator, what: str, node: ast.AST) -> None:
    """Something that only a kernel or a macro can contain. The first in a kernel is told."""
    helper = ev.plain
    if helper is None or ev.builder is None or any(p.rule == "plain-function" for p in ev.problems):
        return
    name = helper.name if isinstance(helper.node, ast.FunctionDef) else "this lambda"
    ev.problem("plain-function", f"{name} is a plain function, in which TileLang does not see {what}; put @T.macro on a function of statements, or use "
               "T.if_then_else and the like in expressions", node)


def refuse_condition(ev: Evaluator, cond: Any, node: ast.AST) -> None:
    if ev.plain is not None and isinstance(cond, Expr) and any(isinstance(x, Load) or isinstance(x, Var) and x.kind in _ON_DEVICE for x in walk(cond)):
        refuse(ev, "a condition on values of the device", node)
