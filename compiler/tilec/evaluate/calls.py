"""Calls: evaluating arguments and dispatching on what is called."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import Evaluator
from .expressions import evaluate
from .plain_code import plain_helper
from .scope import Scope
from .values import (
    Api,
    BoundMethod,
    Class,
    Compiled,
    DType,
    Function,
    HostObject,
    Instance,
    Native,
    Partial,
    Super,
    derived,
    unknown,
)

PRIM_FUNC_CALL = "result of calling a prim_func"


def evaluate_call(ev: Evaluator, node: ast.Call, scope: Scope) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return _super(scope)
    function = evaluate(ev, node.func, scope)
    args, complete = _positional(ev, node, scope)
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        value = evaluate(ev, keyword.value, scope)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, dict) and all(isinstance(k, str) for k in value):
            kwargs.update(value)
        else:
            complete = False
    if ev.surroundings.failing and ev.on_call is not None:
        _expect_refusal(ev, (*args, *kwargs.values()), node)
    if not complete:
        return unknown("call with arguments that are not known")
    if isinstance(function, Native) and function.name == "range" and ev.builder is not None and scope.kind == "kernel":
        return _device_range(ev, args, node)
    return call_value(ev, function, args, kwargs, node)


def _expect_refusal(ev: Evaluator, values: tuple[Any, ...], node: ast.Call) -> None:
    """Kernels handed to a call under ``pytest.raises``, whatever it does with them."""
    inside = getattr(ev.on_call, "compiled_inside", None)
    for value in values:
        if isinstance(value, Function) and value.kind == "prim_func" and inside is not None:
            instance = value.jit.get("record") or inside(value, ev.span(node))
            if instance is not None:
                ev.surroundings.passed(instance)


def _positional(ev: Evaluator, node: ast.Call, scope: Scope) -> tuple[list[Any], bool]:
    args: list[Any] = []
    complete = True
    for arg in node.args:
        if arg.__class__ is ast.Starred:
            more = loops.iterate_host(ev, evaluate(ev, arg.value, scope), None)
            if more is not None:
                args += list(more)
            else:
                complete = False
        else:
            args.append(evaluate(ev, arg, scope))
    return args, complete


def _super(scope: Scope) -> Any:
    receiver = scope.lookup("self")
    if isinstance(receiver, Instance):
        return Super(receiver, receiver.cls)
    return unknown("super")


def _device_range(ev: Evaluator, args: list[Any], node: ast.Call) -> Any:
    """In a kernel ``range`` is T.serial (tilelang/language/eager/builder.py, 0.1.15)."""
    return loops.make_serial(ev, "serial", args, node, "range")


def call_value(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    ev.step()
    if isinstance(function, Function):
        return _call_user(ev, function, args, kwargs, node)
    if isinstance(function, Native):
        return function.call(ev, args, kwargs, node) if function.receiver is None else function.call(ev, [function.receiver, *args], kwargs, node)
    if isinstance(function, Api):
        return registry.call_api(ev, function, args, kwargs, node)
    if isinstance(function, BoundMethod):
        return _call_user(ev, function.function, [function.receiver, *args], kwargs, node)
    if isinstance(function, Class):
        return classes.instantiate_class(ev, function, args, kwargs)
    if isinstance(function, Partial):
        return call_value(ev, function.function, [*function.args, *args], {**dict(function.kwargs), **kwargs}, node)
    if isinstance(function, DType):
        return scalar.cast_call(ev, function, args, node)
    if isinstance(function, Compiled):
        if ev.on_call is not None and ev.builder is None and not kwargs and node is not None:
            ev.on_call.kernel_called(function, len(args), ev.span(node))
        return results.kernel_result(ev, function)
    if isinstance(function, Instance):
        method = function.cls.lookup("__call__")
        if not isinstance(method, Function):
            from .python.torch_classes import module_call

            method = module_call(function)
        if isinstance(method, Function):
            return _call_user(ev, method, [function, *args], kwargs, node)
    if isinstance(function, HostObject):
        return function.bridge.call(ev, function, args, kwargs)
    return derived("call", function)


def _call_user(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    if function.kind == "macro":
        return macros.call_macro(ev, function, args, kwargs, node)
    if function.kind == "lazy" or function.kind == "eager":
        return _call_kernel(ev, function, args, kwargs, node)
    if function.kind == "prim_func":
        return unknown(PRIM_FUNC_CALL)
    if function.kind == "contextmanager":
        return unknown("context manager")
    if ev.builder is not None:
        return _call_helper(ev, function, args, kwargs, node)
    record = None
    if ev.on_call is not None:
        record = ev.on_call(function, args, kwargs, ev.span(node) if node is not None else None)
    try:
        result = ev.call_function(function, args, kwargs)
    except Exception:
        if record is not None:
            ev.on_call.keeps_to_itself(record)
        raise
    if record is not None:
        if isinstance(result, Function):
            result.jit["record"] = record
        else:
            ev.on_call.keeps_to_itself(record)
    return result


def _call_helper(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    """A plain function called while a kernel is traced; what it emits is placed at the call as well."""
    if node is not None:
        ev.callers.append(ev.span(node))
    outer, ev.plain = ev.plain, plain_helper(function)
    try:
        return ev.call_function(function, args, kwargs)
    finally:
        ev.plain = outer
        if node is not None:
            ev.callers.pop()


def _call_kernel(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> Any:
    """On the host a jitted function is compiled for its arguments: that is an instance."""
    instance = None
    if ev.on_call is not None and ev.builder is None:
        _check_key(ev, function, args, kwargs, node)
        instance = ev.on_call(function, args, kwargs, ev.span(node) if node is not None else None)
    if function.kind == "eager":
        return unknown("kernel result")
    if ev.on_call is not None and ev.builder is None and not ev.on_call.owns(function):
        return _call_outer_factory(ev, function, args, kwargs)
    return Compiled(function, instance)


def _check_key(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> None:
    """TileLang keeps compiled kernels by their arguments."""
    if node is None or function.configs is not None or function.jit.get("wrapped") or ev.surroundings.failing:
        return
    given: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
    for position, value in given:
        if isinstance(value, (list, dict, set, tuple, Instance)):
            from .hashing import unhashable

            fault = unhashable(value)
            if fault is not None:
                ev.on_call.refuses(function, f"compiled kernels are kept by their arguments, and this one is or holds {fault}: Python cannot hash it; pass a "
                                   "tuple, numbers, or a frozen dataclass", ev.span(argument_node(node, position)))
                return


def argument_node(call: ast.Call, position: int | str) -> ast.AST:
    """Where an argument is written, else the call."""
    if isinstance(position, str):
        return next((k.value for k in call.keywords if k.arg == position), call)
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    return call if starred or position >= len(call.args) else call.args[position]


def _call_outer_factory(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A jitted function whose prim_func stands in a function inside it, or in another file: running it makes the instance."""
    result = ev.call_function(function, args, kwargs)
    record = result.jit.get("record") if isinstance(result, Function) else None
    if record is not None:
        record.options.update(function.jit)
    return Compiled(function, record)

from . import classes, results  # noqa: E402  (they need the names above)
from .tile import loops, macros, registry, scalar  # noqa: E402  (they need the names above)
