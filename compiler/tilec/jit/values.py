"""Between a running program's objects and the evaluator's values."""
from __future__ import annotations

import enum
import types
from typing import Any

from ..evaluate.evaluator import Evaluator
from ..evaluate.values import (
    MISSING,
    Api,
    BoundMethod,
    Class,
    DType,
    Function,
    HostObject,
    HostTensor,
    Module,
    Native,
    Output,
    TensorType,
    is_unknown,
    unknown,
)
from ..ir import dtypes
from ..ir.buffer import Buffer, Region
from ..ir.expr import Const, Expr
from .functions import has_source, traced_function

_PLAIN = (int, float, bool, complex, str, bytes, type(None), type(Ellipsis))
_VALUES = (Expr, Buffer, Region, DType, Api, Module, Function, Native, TensorType, Output, Class, HostTensor, HostObject)
_MODELLED = ("math", "torch", "functools", "itertools", "operator", "dataclasses", "numpy")


class dtype(str):
    """A data type as a running program sees it: its name, with what TileLang's objects offer."""

    __slots__ = ()

    def __new__(cls, name: Any) -> dtype:
        """By its name or torch's type."""
        text = str(name).removeprefix("torch.")
        return super().__new__(cls, dtypes.canonical(text) or text)

    @property
    def name(self) -> str:
        return str(self)

    @property
    def bits(self) -> int:
        return dtypes.bits(str(self))

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8

    @property
    def itemsize(self) -> int:
        return self.bytes

    @property
    def lanes(self) -> int:
        return dtypes.lanes(str(self))

    def as_torch(self) -> Any:
        """The torch dtype that stores it; 4-bit types are stored two a byte."""
        import torch

        if str(self) in ("float4_e2m1fn", "float4_e2m1fnx2"):
            return getattr(torch, "float4_e2m1fn_x2", torch.int8)
        name = {"int4": "int8", "uint4": "uint8", "tfloat32": "float32"}.get(str(self), str(self))
        return getattr(torch, name)

    def __call__(self, *values: Any) -> Any:
        from .language import host_call

        if not values:  # a variable of that type
            from ..ir.expr import Var

            return Var(str(self), None, "v", "dynamic")
        return host_call(DType(str(self)), values, {})


def to_value(obj: Any) -> Any:
    """The evaluator's value for an object of the running program."""
    if isinstance(obj, dtype):
        return DType(str(obj))
    if isinstance(obj, enum.Enum):
        return to_value(obj.value) if isinstance(obj.value, Api) else HostObject(obj, BRIDGE)
    if type(obj) in _PLAIN or isinstance(obj, _VALUES):
        return obj
    if isinstance(obj, (tuple, list)):
        return _sequence(obj)
    if type(obj) is dict:
        return {k: to_value(v) for k, v in obj.items()}
    if type(obj) in (set, frozenset, range, slice):
        return obj
    if hasattr(type(obj), "__tilec_value__"):
        return obj.__tilec_value__()
    return _foreign(obj)


def _sequence(obj: Any) -> Any:
    if type(obj) in (tuple, list):
        return type(obj)(to_value(x) for x in obj)
    if hasattr(obj, "_fields"):  # a named tuple keeps its names
        return HostObject(obj, BRIDGE)
    return tuple(to_value(x) for x in obj) if isinstance(obj, tuple) else [to_value(x) for x in obj]


def _foreign(obj: Any) -> Any:
    kind = type(obj).__module__.split(".")[0]
    if kind == "torch":
        return _of_torch(obj)
    if kind == "numpy" and hasattr(obj, "item") and getattr(obj, "ndim", 1) == 0:
        return obj.item()
    if isinstance(obj, types.ModuleType) and obj.__name__.split(".")[0] == "tvm":
        return Module(obj.__name__)
    if isinstance(obj, types.ModuleType):
        return Module(obj.__name__) if obj.__name__ in _MODELLED else HostObject(obj, BRIDGE)
    if any(obj is t for t in (int, float, bool)):  # an array has no single truth of ==
        return _builtin(obj.__name__)
    if isinstance(obj, types.FunctionType) and hasattr(obj, "__tilec_api__"):
        return obj.__tilec_api__
    if isinstance(obj, types.FunctionType):
        return traced_function(obj, to_value) if has_source(obj) and not _is_library(obj) else HostObject(obj, BRIDGE)
    if isinstance(obj, types.MethodType) and isinstance(obj.__func__, types.FunctionType) and has_source(obj.__func__):
        return BoundMethod(to_value(obj.__self__), traced_function(obj.__func__, to_value))
    if isinstance(obj, types.BuiltinFunctionType):
        return _builtin_function(obj)
    return HostObject(obj, BRIDGE)


def _of_torch(obj: Any) -> Any:
    import torch

    if isinstance(obj, torch.dtype):
        name = dtypes.canonical(str(obj).removeprefix("torch."))
        return DType(name) if name is not None else unknown(str(obj))
    if isinstance(obj, torch.Tensor):
        return HostTensor(tuple(obj.shape), dtypes.canonical(str(obj.dtype).removeprefix("torch.")) or dtypes.UNKNOWN)
    return HostObject(obj, BRIDGE)


def _is_library(function: types.FunctionType) -> bool:
    """Functions of installed packages run as they are: they know nothing of device values."""
    return "site-packages" in function.__code__.co_filename or "/lib/python" in function.__code__.co_filename


def _builtin(name: str) -> Any:
    from ..evaluate.python.builtins import BUILTINS

    return BUILTINS.get(name, unknown(name))


def _builtin_function(obj: Any) -> Any:
    module = getattr(obj, "__module__", "") or ""
    if module == "builtins":
        return _builtin(obj.__name__)
    if module in _MODELLED:
        from ..evaluate.python.modules import member

        return member(module, obj.__name__)
    return HostObject(obj, BRIDGE)


def to_host(value: Any) -> Any:
    """The running program's object for a value of the evaluator's."""
    if isinstance(value, DType):
        return dtype(value.name)
    if isinstance(value, Const):
        return value.value
    if isinstance(value, HostObject):
        return value.value
    if type(value) in (tuple, list):
        return type(value)(to_host(v) for v in value)
    if type(value) is dict:
        return {k: to_host(v) for k, v in value.items()}
    return value


def is_host(value: Any) -> bool:
    """Whether a value exists before the kernel runs."""
    if isinstance(value, (tuple, list)):
        return all(map(is_host, value))
    return not is_unknown(value) and not isinstance(value, (Buffer, Region)) and (not isinstance(value, Expr) or isinstance(value, Const))


class _Bridge:
    """What the evaluator asks of an object that only the running program knows."""

    def attribute(self, base: HostObject, name: str) -> Any:
        try:
            return to_value(getattr(base.value, name))
        except AttributeError:
            return unknown(f"attribute {name}")

    def item(self, base: HostObject, index: Any) -> Any:
        if not is_host(index):
            return unknown("item at a device index")
        try:
            return to_value(base.value[to_host(index)])
        except (TypeError, IndexError, KeyError, ValueError):
            return unknown("item")

    def truth(self, base: HostObject) -> bool:
        return bool(base.value)

    def call(self, ev: Evaluator, base: HostObject, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not all(map(is_host, (*args, *kwargs.values()))):
            return unknown("call with device values")
        return to_value(base.value(*map(to_host, args), **{k: to_host(v) for k, v in kwargs.items()}))


BRIDGE = _Bridge()

__all__ = ["BRIDGE", "MISSING", "dtype", "is_host", "to_host", "to_value"]
