"""Arguments that static evaluation does not know, as symbols: integers of the host program that kernels use as sizes."""
from __future__ import annotations

import ast
from typing import Any

from ..ir.expr import Var
from .functions import bind_arguments
from .values import Function, is_unknown

_NO_INTEGERS = frozenset(("bool", "str", "dtype", "Callable", "dict", "list", "tuple"))

Arguments = tuple[list[Any], dict[str, Any]]


def with_sizes(function: Function, args: list[Any], kwargs: dict[str, Any]) -> Arguments | None:
    """The arguments with a symbol for each that is not known and may be an integer; None if there is no such argument."""
    values, _ = bind_arguments(function, args, kwargs)
    spec = function.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    sizes: dict[str, Var] = {}
    for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
        name = parameter.arg
        if is_unknown(values.get(name)) and name != "self" and not _is_no_integer(parameter):
            sizes[name] = Var("int32", None, name, "size")
    if not sizes:
        return None
    new = [sizes.get(name, value) for name, value in zip(positional, args)]
    return [*new, *args[len(new):]], {**kwargs, **{n: v for n, v in sizes.items() if n not in positional[:len(args)]}}


def _is_no_integer(parameter: ast.arg) -> bool:
    if "dtype" in parameter.arg:
        return True
    if parameter.annotation is None:
        return False
    return ast.unparse(parameter.annotation).split(".")[-1].split("[")[0] in _NO_INTEGERS
