"""Attribute access on every kind of value."""
from __future__ import annotations

import ast
from typing import Any

from ..ir import dtypes
from ..ir.buffer import Buffer, Region
from ..ir.expr import Expr, Load
from .by_class import ByClass
from .evaluator import Evaluator
from .values import (
    MISSING,
    NUM_SMS,
    Api,
    BoundMethod,
    Class,
    Compiled,
    DType,
    Function,
    HostObject,
    HostTensor,
    Instance,
    Module,
    Native,
    Super,
    TensorType,
    derived,
    is_unknown,
    plain,
    unknown,
)

_POLICY = Api("tilelang.language", "GemmWarpPolicy")
_POLICIES = ("Square", "FullRow", "FullCol")


def get_attribute(ev: Evaluator, base: Any, name: str, node: ast.Attribute) -> Any:
    if is_unknown(base):
        return NUM_SMS if name == "multi_processor_count" else derived(f"attribute {name}", base)
    getter = _GETTERS[base.__class__]
    if getter is not None:
        return getter(ev, base, name, node)
    found = methods.method(base, name)
    return unknown(f"attribute {name}") if found is MISSING else found


def _module(ev: Evaluator, base: Module, name: str, node: Any) -> Any:
    return ev.workspace.member(ev, base, name, node)


def _api(ev: Evaluator, base: Api, name: str, node: Any) -> Any:
    if base == _POLICY and name[0].isupper() and name not in _POLICIES:
        ev.problem("unknown-attribute", f"T.GemmWarpPolicy has no member {name}; there are {', '.join(_POLICIES)}", node)
    return Api(f"{base.module}.{base.name}", name)


def _buffer(ev: Evaluator, base: Buffer, name: str, node: Any) -> Any:
    if name == "shape":
        return tuple(plain(e) for e in base.shape)
    if name == "dtype":
        return unknown("dtype") if base.dtype == dtypes.UNKNOWN else DType(base.dtype)
    if name == "name":
        return base.name
    if name == "scope":
        return Native("scope", lambda ev, args, kwargs, node: base.scope)
    if name == "strides" and base.strides is not None:
        return tuple(plain(e) for e in base.strides)
    if name == "ndim":
        return base.ndim
    found = pointers.buffer_member(base, name)
    return unknown(f"attribute {name} of a buffer") if found is MISSING else found


def _region(ev: Evaluator, base: Region, name: str, node: Any) -> Any:
    if name == "buffer":
        return base.buffer
    return unknown(f"attribute {name} of a region")


def _expr(ev: Evaluator, base: Expr, name: str, node: Any) -> Any:
    if name == "dtype":
        return unknown("dtype") if base.dtype == dtypes.UNKNOWN else DType(base.dtype)
    if name == "buffer" and isinstance(base, Load):
        return base.buffer
    if name == "astype":
        from .tile.scalar import astype

        return Native("astype", lambda ev, args, kwargs, node: astype(ev, base, args, node))
    if name == "name":
        return getattr(base, "name", unknown(name))
    return unknown(f"attribute {name} of an expression")


def _dtype(ev: Evaluator, base: DType, name: str, node: Any) -> Any:
    bits = dtypes.bits(base.name)
    if name in ("bits", "itemsize_bits"):
        return bits
    if name in ("bytes", "itemsize"):
        return (bits + 7) // 8
    if name == "lanes":
        return dtypes.lanes(base.name)
    if name == "is_floating_point":
        return dtypes.is_float(base.name)
    if name == "is_signed":
        return not dtypes.is_unsigned(base.name)
    if name == "name":
        return base.name
    if name == "as_torch":
        return Native("as_torch", lambda ev, args, kwargs, node: base)
    found = methods.method(base.name, name)
    return unknown(name) if found is MISSING else found


def _function(ev: Evaluator, base: Function, name: str, node: Any) -> Any:
    return jit.function_attribute(ev, base, name)


def _instance(ev: Evaluator, base: Instance, name: str, node: Any) -> Any:
    return classes.instance_attribute(ev, base, name)


def _class(ev: Evaluator, base: Class, name: str, node: Any) -> Any:
    return classes.class_attribute(ev, base, name)


def _super(ev: Evaluator, base: Super, name: str, node: Any) -> Any:
    for parent in base.cls.bases:
        if isinstance(parent, Class):
            found = parent.lookup(name)
            if isinstance(found, Function):
                return BoundMethod(base.receiver, found)
    return Native("super method", lambda ev, args, kwargs, node: None)


def _tensor(ev: Evaluator, base: HostTensor, name: str, node: Any) -> Any:
    return torch_model.tensor_attribute(base, name)


def _tensor_type(ev: Evaluator, base: TensorType, name: str, node: Any) -> Any:
    if name == "shape" and base.shape is not None:
        return base.shape
    if name == "dtype" and base.dtype != dtypes.UNKNOWN:
        return DType(base.dtype)
    return unknown(name)


def _object(ev: Evaluator, base: HostObject, name: str, node: Any) -> Any:
    return base.bridge.attribute(base, name)


def _opaque(ev: Evaluator, base: Any, name: str, node: Any) -> Any:
    return unknown(f"attribute {name}")


_GETTERS = ByClass([  # None where methods are asked for
    (Module, _module), (Api, _api), (Buffer, _buffer), (Region, _region), (Expr, _expr), (DType, _dtype), (Function, _function),
    (Instance, _instance), (Class, _class), (Super, _super), (HostTensor, _tensor), (TensorType, _tensor_type), (Compiled, _opaque),
    (BoundMethod, _opaque), (HostObject, _object),
])

from . import classes  # noqa: E402  (they need the names above)
from .python import methods, torch_model  # noqa: E402  (they need the names above)
from .tile import jit, pointers  # noqa: E402  (they need the names above)
