"""Arguments that static evaluation does not know, as symbols: integers of the host program that kernels use as sizes."""
from __future__ import annotations

import ast
import math
from typing import Any

from ..ir import build, dtypes
from ..ir.expr import Binary, Cast, Const, Expr, Unary, Var
from .functions import bind_arguments
from .values import Function, is_unknown, plain, unknown

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


# -- arithmetic of the host on such symbols -------------------------------------------------------------------------------------
def is_size(value: Any) -> bool:
    """An expression of host sizes alone."""
    return isinstance(value, Expr) and not isinstance(value, Const) and _of_sizes(value)


def _of_sizes(e: Expr) -> bool:
    """Gives up at the first leaf that is no size: expressions of the device are the common case."""
    if isinstance(e, Var):
        return e.kind == "size"
    if isinstance(e, Binary):
        return _of_sizes(e.a) and _of_sizes(e.b)
    return isinstance(e, Const) or (isinstance(e, (Cast, Unary)) and _of_sizes(e.a))


def are_sizes(*values: Any) -> bool:
    """Host sizes and numbers, at least one of the former."""
    return any(is_size(v) for v in values) and all(isinstance(v, (int, float, Const)) or is_size(v) for v in values)


def binary(op: str, left: Any, right: Any) -> Any:
    """Python's operators: ``/`` and powers of fractions give floats."""
    if op == "div":
        return build.binary("div", build.cast(left, "float32"), build.cast(right, "float32"))
    if op == "pow":
        if isinstance(right, int) and 0 <= right <= 4:
            return math.prod([left] * right)
        return build.call("pow", (build.cast(left, "float32"), build.cast(right, "float32")), "float32")
    return plain(build.binary(op, left, right))


def call(name: str, args: list[Any]) -> Any:
    """Python's built-in functions and those of ``math``."""
    name = name.removeprefix("math.")
    if name in ("min", "max") and len(args) > 1:
        found = args[0]
        for other in args[1:]:
            found = plain(build.binary(name, found, other))
        return found
    if len(args) != 1:
        return unknown(name)
    if name in ("int", "floor", "trunc", "round"):
        return args[0] if dtypes.is_int(args[0].dtype) else build.cast(args[0], "int32")
    if name == "ceil":
        return _ceiling(args[0])
    if name == "float":
        return build.cast(args[0], "float32")
    if name in ("sqrt", "log", "log2", "exp"):
        return build.call(name, (build.cast(args[0], "float32"),), "float32")
    return unknown(name)


def _ceiling(value: Expr) -> Any:
    """``math.ceil(a / b)`` is an integer division that rounds up."""
    if dtypes.is_int(value.dtype):
        return value
    if isinstance(value, Binary) and value.op == "div":
        a, b = (side.a if isinstance(side, Cast) else side for side in (value.a, value.b))
        whole = [build.const(int(s.value)) if isinstance(s, Const) and float(s.value).is_integer() else s for s in (a, b)]
        if all(dtypes.is_int(s.dtype) for s in whole):
            return plain(build.ceildiv(*whole))
    return build.cast(build.call("ceil", (value,), "float32"), "int32")
