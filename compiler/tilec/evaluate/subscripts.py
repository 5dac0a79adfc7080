"""Subscripts on every kind of value."""
from __future__ import annotations

import ast
from typing import Any

from ..ir.buffer import Buffer, Region
from ..ir.expr import Const, Expr
from .evaluator import Evaluator
from .values import Api, Class, HostObject, HostTensor, Instance, Native, Reference, TensorType, derived, is_unknown, unknown


def get_item(ev: Evaluator, base: Any, index: Any, node: ast.Subscript) -> Any:
    if is_unknown(base):
        return derived("item", base)
    if isinstance(base, (Buffer, Region)):
        return elements.index_buffer(ev, base, index, node)
    if isinstance(base, Reference):
        return elements.as_scalar(base)
    if isinstance(base, Api):
        return registry.subscript_api(ev, base, index, node)
    if isinstance(base, HostTensor):
        return torch_model.tensor_item(base, index)
    if is_unknown(index) or _has_unknown(index):
        return unknown("item")
    if isinstance(base, (list, tuple, str, range, dict, bytes)):
        return _host_item(ev, base, index, node)
    if isinstance(base, Class):
        return base  # a generic
    if isinstance(base, HostObject):
        return base.bridge.item(base, index)
    if isinstance(base, Instance) and base.cls.is_tuple:
        from .classes import as_tuple

        return _host_item(ev, as_tuple(base), index, node)
    if isinstance(base, Instance):
        method = base.cls.lookup("__getitem__")
        return ev.call_function(method, [base, index], {}) if not isinstance(method, (Native,)) and hasattr(method, "node") else unknown("item")
    if isinstance(base, TensorType) and base.kind == "tensor":
        return unknown("item")
    return unknown("item")


def _has_unknown(index: Any) -> bool:
    if isinstance(index, tuple):
        return any(_has_unknown(i) for i in index)
    if isinstance(index, slice):
        return any(is_unknown(p) for p in (index.start, index.stop, index.step))
    return is_unknown(index)


def _host_item(ev: Evaluator, base: Any, index: Any, node: ast.Subscript) -> Any:
    if isinstance(index, Expr):
        if ev.builder is not None and isinstance(base, (list, tuple, dict)) and not isinstance(index, Const):
            ev.problem("python-builtin", f"a Python {type(base).__name__} cannot be indexed with a device value; loop over it while the kernel is "
                       "built, or put its items into a buffer", node)
        return unknown("item at a device index")
    try:
        return base[index]
    except (TypeError, IndexError, KeyError, ValueError):
        return unknown("item")

from .python import torch_model  # noqa: E402  (they need the names above)
from .tile import elements, registry  # noqa: E402  (they need the names above)
