"""User functions: making them, binding arguments, running them."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import MAX_DEPTH, BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from .scope import Scope
from .values import Function, same, unknown


def make_function(ev: Evaluator, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Function:
    positional = [ev.eval(d, scope) for d in node.args.defaults]
    kw_defaults = {a.arg: ev.eval(d, scope) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None}
    name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
    return Function(node, scope, name, positional, kw_defaults, source=ev.source)

MAX_RECURSION_STEPS = 10_000  # of a host function that calls itself: calls of several of itself at every level would never end


def bind_arguments(function: Function, args: list[Any], kwargs: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The parameters' values, and what is wrong with the call in words (Python's TypeError), if anything."""
    spec = function.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    values: dict[str, Any] = dict(zip(positional, args))
    extra = args[len(positional):]
    error: str | None = None
    if spec.vararg is not None:
        values[spec.vararg.arg] = tuple(extra)
    elif extra:
        error = f"{function.name}() takes {len(positional)} positional arguments but {len(args)} were given"
    others: dict[str, Any] = {}
    known = {*positional, *(a.arg for a in spec.kwonlyargs)}
    for key, value in kwargs.items():
        if key in known:
            if key in positional[:len(args)]:
                error = error or f"{function.name}() got multiple values for argument {key!r}"
            values[key] = value
        else:
            others[key] = value
    if spec.kwarg is not None:
        values[spec.kwarg.arg] = others
    elif others:
        error = error or f"{function.name}() got an unexpected keyword argument {next(iter(others))!r}"
    error = _apply_defaults(function, positional, values) or error
    return values, error


def defaults(function: Function) -> dict[str, Any]:
    """The parameters that have a default, with it."""
    spec = function.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    return {**dict(zip(positional[len(positional) - len(function.defaults):], function.defaults)), **function.kw_defaults}


def _apply_defaults(function: Function, positional: list[str], values: dict[str, Any]) -> str | None:
    spec = function.node.args
    given = defaults(function)
    missing = []
    for name in (*positional, *(a.arg for a in spec.kwonlyargs)):
        if name not in values:
            if name in given:
                values[name] = given[name]
            else:
                missing.append(name)
                values[name] = unknown(f"argument {name}")
    return f"{function.name}() is missing the argument{'s' if len(missing) > 1 else ''} " + ", ".join(map(repr, missing)) if missing else None


def bind(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], kind: str = "function") -> Scope | None:
    """A scope for a call, or None if the call cannot be bound."""
    values, error = bind_arguments(function, args, kwargs)
    if error is not None and "missing" not in error:
        return None
    scope = Scope(function.scope, kind, function.source)
    scope.names.update(values)
    return scope


def run_function(ev: Evaluator, function: Function, scope: Scope) -> Any:
    """Run the body in a prepared scope and return the value, unknown where several returns may be taken."""
    begun = ev.running.get(function.node)
    if ev.depth >= MAX_DEPTH or (begun is not None and ev.leads_nowhere(begun, MAX_RECURSION_STEPS)):
        return unknown("deep recursion")
    outer = ev.source
    if begun is None:
        ev.running[function.node] = ev.progress()
    ev.source = function.source or ev.source
    ev.depth += 1
    ev.returns.append([])
    try:
        if isinstance(function.node, ast.Lambda):
            return ev.eval(function.node.body, scope)
        if ev.slicer is not None and ev.builder is None:
            scope.plan = ev.slicer.plan(function, scope)
        value: Any = None
        try:
            ev.run(function.node.body, scope)
        except ReturnSignal as signal:
            value = signal.value
        except (BreakSignal, ContinueSignal):
            pass
        except Raised:  # a return before it may have been taken: then it was
            if not ev.returns[-1]:
                raise
            value = ev.returns[-1][0][0]
        maybe = ev.returns[-1]
        return _joined(value, maybe)
    finally:
        ev.returns.pop()
        ev.depth -= 1
        ev.source = outer
        if begun is None:
            del ev.running[function.node]


def _joined(value: Any, maybe: list[tuple[Any, bool]]) -> Any:
    if not maybe or all(same(value, m) for m, _ in maybe):
        return value
    candidates = [v for v in (*(m for m, _ in maybe), value) if isinstance(v, Function)]
    if len(candidates) == 1:  # "if not supported: return None": the kernel is what was meant
        return candidates[0]
    if all(free for _, free in maybe):  # the machine decides
        return value if value is not None else maybe[0][0]
    return unknown("several returns")
