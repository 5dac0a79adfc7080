"""Running what a script's user or a test runner would run, for the instances of kernels it makes."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from ..source.file import SourceFile
from ..source.nodes import walk
from .definitions import KernelDefinition
from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from .scope import Scope
from .values import Class, Function, unknown

_NAMES = ("main", "run", "bench", "benchmark")
_PREFIXES = ("test_", "run_", "regression_", "check_")
MAX_CASES = 8  # of a parametrized test


def run_entry_points(ev: Evaluator, source: SourceFile, scope: Scope, definitions: dict[ast.AST, KernelDefinition]) -> None:
    """Tests and main functions first; then whatever else leads to kernels that still have no instance."""
    for function, receiver in _entry_points(ev, source, scope, definitions):
        _run_cases(ev, function, receiver)
    open_ = {d.name for d in definitions.values() if not d.instances and d.outermost is d.node}
    if open_:
        _run_users(ev, source, scope, definitions, open_)


def _entry_points(ev: Evaluator, source: SourceFile, scope: Scope, definitions: dict[ast.AST, KernelDefinition]) -> Iterator[tuple[Function, list[Any]]]:
    for statement in source.tree.body:
        found = scope.names.get(getattr(statement, "name", ""))
        if isinstance(statement, ast.FunctionDef) and (statement not in definitions or is_plain(found)):
            named = statement.name in _NAMES or statement.name.startswith(_PREFIXES)
            if named and isinstance(found, Function) and found.node is statement and ev.slicer.leads(statement.name):
                yield found, []
        elif isinstance(statement, ast.ClassDef) and statement.name.startswith("Test") and isinstance(found, Class):
            for name, member in list(found.namespace.items()):
                if name.startswith("test") and isinstance(member, Function) and (member.node not in definitions or is_plain(member)):
                    yield member, [found]


def is_plain(function: Any) -> bool:
    """A test that holds its prim_func itself, and compiles it."""
    return isinstance(function, Function) and function.kind == "plain"


def _run_cases(ev: Evaluator, function: Function, receiver: list[Any]) -> None:
    with ev.surroundings.required(function.required):
        for case in (function.cases or [{}])[:MAX_CASES]:
            first = [_run(ev, cls, [], {}) for cls in receiver]
            _run(ev, function, first, case)


def _run(ev: Evaluator, function: Any, args: list[Any], case: dict[str, Any]) -> Any:
    """Call a function; parameters without a value are unknown."""
    kwargs = dict(case)
    if isinstance(function, Function):
        spec = function.node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        required = names[len(args):len(names) - len(function.defaults)] + [a.arg for a in spec.kwonlyargs if a.arg not in function.kw_defaults]
        known = {*names[len(args):], *(a.arg for a in spec.kwonlyargs)}
        kwargs = {k: v for k, v in kwargs.items() if k in known or spec.kwarg is not None}
        kwargs.update({n: unknown(f"argument {n}") for n in required if n not in kwargs})
    try:
        return ev.call(function, args, kwargs)
    except (Raised, ReturnSignal, BreakSignal, ContinueSignal):
        return unknown("call")


def _run_users(ev: Evaluator, source: SourceFile, scope: Scope, definitions: dict[ast.AST, KernelDefinition], wanted: set[str]) -> None:
    """Functions that nobody calls but that use a kernel nobody has reached."""
    for statement in source.tree.body:
        found = scope.names.get(getattr(statement, "name", ""))
        if not wanted & _names_in(statement):
            continue
        if isinstance(statement, ast.FunctionDef) and isinstance(found, Function) and found.node is statement and statement not in definitions:
            _run(ev, found, [], {})
        elif isinstance(statement, ast.ClassDef) and isinstance(found, Class):
            _run_methods(ev, found, definitions)
        wanted -= {d.name for d in definitions.values() if d.instances}


def _run_methods(ev: Evaluator, cls: Class, definitions: dict[ast.AST, KernelDefinition]) -> None:
    from .python.torch_classes import FUNCTION, derives

    static = derives(cls, FUNCTION)
    instance = None if static else _run_class(ev, cls)
    for name, member in list(cls.namespace.items()):
        if isinstance(member, Function) and member.node not in definitions and (static or not name.startswith("__")):
            _run(ev, member, [] if static or member.kind == "staticmethod" else [instance], {})


def _run_class(ev: Evaluator, cls: Class) -> Any:
    init = cls.lookup("__init__")
    required = len(init.node.args.args) - 1 - len(init.defaults) if isinstance(init, Function) else 0
    return _run(ev, cls, [unknown("argument")] * max(required, 0), {})


def _names_in(statement: ast.AST) -> set[str]:
    return {n.id for n in walk(statement) if isinstance(n, ast.Name)}


__all__ = ["run_entry_points"]
