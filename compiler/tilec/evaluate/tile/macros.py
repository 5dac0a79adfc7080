"""T.macro: functions traced into the kernel that calls them."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import VAR, Buffer
from ...ir.expr import Expr, Load, Var, walk
from ...ir.stmt import Let
from ..evaluator import Evaluator
from ..functions import bind, bind_arguments, run_function
from ..values import Api, Function, Reference, is_unknown, unknown
from .elements import as_scalar


def call_macro(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    builder = ev.builder
    if builder is None:
        if node is not None:
            ev.problem("macro-outside", f"{function.name} is a macro; macros are called inside kernels", node)
        return unknown("macro")
    if node is not None and builder.in_lazy_operand():
        ev.problem("macro-boolop", f"{function.name} is a macro, which cannot be called in a later operand of and/or or in a side of a conditional "
                   "expression; use an if statement", node)
    if node is not None and not any(isinstance(a, ast.Starred) for a in node.args) and all(k.arg for k in node.keywords):
        error = bind_arguments(function, args, kwargs)[1]
        if error is not None:
            ev.problem("call-arity", error, node)
    scope = bind(ev, function, args, kwargs, "kernel")
    if scope is None:
        return unknown(f"macro {function.name}")
    if node is not None:
        ev.callers.append(ev.span(node))
    builder.enter("macro")
    outer, ev.plain = ev.plain, None
    try:
        _bind_parameters(ev, function, scope, node)
        return run_function(ev, function, scope)
    finally:
        ev.plain = outer
        builder.leave()
        if node is not None:
            ev.callers.pop()


def _bind_parameters(ev: Evaluator, function: Function, scope: Any, node: Any) -> None:
    references = _reference_parameters(ev, function)
    for name, value in list(scope.names.items()):
        if name in references:
            scope.names[name] = _reference(value) if _check_reference(ev, name, value, node) else unknown(f"argument {name}")
        elif isinstance(value, Reference):
            scope.names[name] = as_scalar(value)
        elif isinstance(value, Buffer) and value.scope == VAR:
            scope.names[name] = value
        if isinstance(scope.names[name], Expr) and not is_unknown(scope.names[name]):
            scope.names[name] = _bound_once(ev, name, scope.names[name], node)


def _bound_once(ev: Evaluator, name: str, value: Expr, node: Any) -> Expr:
    """An argument that reads memory is read once, at the call."""
    if isinstance(value, Var) or not any(isinstance(e, Load) for e in walk(value)):
        return value
    assert ev.builder is not None
    var = Var(value.dtype, value.span, ev.builder.unique(name), "let")
    ev.builder.emit(Let(ev.callers[-1] if ev.callers else None, var, value))
    return var


def _reference_parameters(ev: Evaluator, function: Function) -> set[str]:
    if isinstance(function.node, ast.Lambda):
        return set()
    found = set()
    for argument in (*function.node.args.args, *function.node.args.kwonlyargs):
        if argument.annotation is not None:
            value = ev.eval(argument.annotation, function.scope)
            if isinstance(value, Api) and value.name in ("Ref", "Var"):
                found.add(argument.arg)
    return found


def _check_reference(ev: Evaluator, name: str, value: Any, node: Any) -> bool:
    """A T.Ref parameter takes an element, a slice or a variable."""
    if isinstance(value, Buffer) and value.scope != VAR:
        what = f"the buffer {value.name} as a whole; pass one element of it"
    elif isinstance(value, (int, float, str)):
        what = f"{value!r}, which cannot be assigned"
    elif isinstance(value, Expr) and not is_unknown(value) and not isinstance(value, Load):
        what = "a value that is computed, which cannot be assigned"
    else:
        return True
    if node is not None:
        ev.problem("macro-ref", f"{name} is a T.Ref parameter and gets {what}", _argument_node(name, node))
    return False


def _argument_node(name: str, node: ast.Call) -> ast.AST:
    return next((k.value for k in node.keywords if k.arg == name), node)


def _reference(value: Any) -> Any:
    if isinstance(value, Load):
        return Reference(value.buffer, value.indices)
    return value
