"""The language's names as objects of a running program: ``T.Tensor(...)``, ``T.float16``, ``T.GemmWarpPolicy.FullRow``."""
from __future__ import annotations

import ast
import functools
import types
from typing import Any

from ..evaluate.evaluator import Evaluator
from ..evaluate.tile.registry import subscript_api
from ..evaluate.values import Api, DType, Function, Module, is_unknown, unknown
from ..evaluate.workspace import Workspace, tilelang_member
from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.expr import Expr, Var
from ..source.file import SourceFile
from .errors import CompileError
from .functions import traced_function
from .values import dtype, to_host, to_value

_HOST = SourceFile("<host>", "")


def _evaluator() -> Evaluator:
    return Evaluator(_HOST, Workspace())


def host_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a name of the language outside a kernel."""
    ev = _evaluator()
    ev.reporting = True
    result = ev.call(function, [to_value(a) for a in args], {k: to_value(v) for k, v in kwargs.items()})
    fault = next((p.message for p in ev.problems if _is_error(p.rule)), None)
    if fault is not None:
        raise CompileError(fault)
    if is_unknown(result):
        name = getattr(function, "name", "call")
        raise CompileError(f"T.{name} cannot be used here: outside a kernel only types, sizes, dtypes and layouts can be made")
    return to_host(result)


def _is_error(rule: str) -> bool:
    from ..check.diagnostic import ERROR
    from ..check.registry import find

    found = find(rule)
    return found is not None and found.severity == ERROR


class Name:
    """A name of the language that is neither a dtype nor a module."""

    def __init__(self, api: Api):
        self._api = api
        self.__name__ = api.name
        self.__qualname__ = api.name

    def __tilec_value__(self) -> Api:
        return self._api

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return host_call(self._api, args, kwargs)

    __iter__ = None  # an index makes a type, it does not count

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or self._api.name[:1].islower():  # functions have no members
            raise AttributeError(f"T.{self._api.name} has no attribute {name!r}")
        return Name(Api(f"{self._api.module}.{self._api.name}", name))

    def __getitem__(self, index: Any) -> Any:
        node = ast.Subscript(value=ast.Name("T", ast.Load()), slice=ast.Constant(0), ctx=ast.Load())
        for part in ast.walk(node):
            part.lineno = part.end_lineno = 1  # type: ignore[attr-defined]
            part.col_offset = part.end_col_offset = 0  # type: ignore[attr-defined]
        return to_host(subscript_api(_evaluator(), self._api, to_value(index), node))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name) and other._api == self._api

    def __hash__(self) -> int:
        return hash(self._api)

    def __instancecheck__(self, value: Any) -> bool:
        """``isinstance(n, T.Var)``."""
        kind = {"Var": Var, "Buffer": Buffer, "Tensor": Buffer, "PrimExpr": Expr}.get(self._api.name)
        return kind is not None and isinstance(value, kind)

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"{self._api.module}.{self._api.name}"


class Macro:
    """A function under ``@T.macro``: traced into the kernels that call it."""

    __name__: str

    def __init__(self, function: types.FunctionType):
        functools.update_wrapper(self, function)
        self.function = function

    def __tilec_value__(self) -> Function:
        return traced_function(self.function, to_value, "macro")

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundMacro(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CompileError(f"{self.__name__} is a macro; macros are called inside kernels")


class BoundMacro:
    """A macro that is a method."""

    def __init__(self, macro: Macro, instance: Any):
        self._macro, self._instance = macro, instance

    def __tilec_value__(self) -> Any:
        from ..evaluate.values import BoundMethod

        return BoundMethod(to_value(self._instance), self._macro.__tilec_value__())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._macro()


def macro(function: Any = None, **options: Any) -> Any:
    """``@T.macro`` or ``@T.macro(hygienic=True)``."""
    return Macro(function) if function is not None else Macro


macro.__tilec_api__ = Api("tilelang.language", "macro")  # type: ignore[attr-defined]  # above a function inside traced code


def member(module: str, name: str) -> Any:
    """``module.name`` for a running program. Raises AttributeError for names the language lacks."""
    found = tilelang_member(module, name)
    if found == _Constants.api:
        return _Constants(found)
    if found in (Api("tilelang.language", "DataType"), Api("tilelang.language", "dtype")):
        return dtype
    if isinstance(found, DType):
        return to_host(found)
    if isinstance(found, Module):
        import importlib

        return importlib.import_module(found.name)
    return Name(found)


def of_tvm(path: str) -> Any:
    """What a name of TVM's means inside a kernel; unknown where the language has nothing of the kind."""
    from ..evaluate.python.modules import member as member_of

    module, _, name = path.rpartition(".")
    return member_of(module, name) if module.startswith("tvm") else unknown(path)


def is_known(name: str) -> bool:
    """Whether the language has a name."""
    from ..evaluate.tile.registry import known_names

    return dtypes.canonical(name) is not None or name in known_names()


class _Constants(Name):
    """``T.const``: inside a kernel the language's own, whose values follow from the arguments; in an annotation, which Python
    evaluates before there is a kernel, symbols of these names."""

    api = Api("tilelang.language", "const")

    def __call__(self, names: str, dtype: str = "int32") -> Any:
        found = tuple(Var(dtype, None, name, "const") for name in names.replace(",", " ").split())
        return found[0] if len(found) == 1 and "," not in names else found
