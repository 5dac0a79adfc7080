"""torch as kernels' host code uses it: dtypes, functions on tensors by shape and dtype, and facts about the machine."""
from __future__ import annotations

import math
from typing import Any

from ...ir import dtypes
from ...ir.buffer import Buffer, Region
from ..values import DType, HostTensor, Module, Native, Reference, dtype_name, hardware, is_device, is_unknown, plain, unknown
from . import torch_methods as methods
from . import torch_shapes as shapes
from .torch_methods import tensor_attribute

__all__ = ["tensor_attribute", "tensor_item", "torch_member"]

_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
           "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "half", "float", "double", "int",
           "short", "long")
_FACTORIES = ("randn", "rand", "empty", "zeros", "ones")
_SUBMODULES = ("cuda", "nn", "version", "autograd", "backends", "testing", "utils", "distributed", "special", "library", "ops", "compiler", "mps")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_HARDWARE = ("get_device_capability", "get_device_name", "device_count", "current_device", "get_device_properties",
             "get_arch_list")


def torch_member(name: str) -> Any:
    if name in _DTYPES:
        return DType("float16" if name == "half" else dtypes.canonical(name) or name)
    if name in ("inf", "nan", "pi", "e"):
        return getattr(math, name)
    if name in _SUBMODULES:
        return Module(f"torch.{name}")
    if name in _FACTORIES:
        return shapes.modelled(name, lambda a, k: _tensor(a, k, "float32"))
    function = _FUNCTIONS.get(name)
    if function is not None:
        return shapes.modelled(name, function)
    if name in methods.METHODS or name in methods.SAME or name in methods._COMPARE or name in methods._REDUCTIONS:
        return Native(name, lambda ev, a, k, n: _as_method(ev, name, a, k, n))
    return unknown(f"torch.{name}")


def submodule_member(module: str, name: str) -> Any:
    """A name of ``torch.cuda``, ``torch.nn.functional`` and the like."""
    if module == "torch.version":
        return None if name in ("hip", "xpu") else hardware()
    if module.endswith(".mps"):
        return Native(name, lambda ev, a, k, n: False)
    if module == "torch.cuda" and name == "is_available":
        return Native(name, lambda ev, a, k, n: True)
    if module == "torch.backends":
        return Module(f"torch.backends.{name}")
    if module == "torch.cuda":
        return Native(name, lambda ev, a, k, n: hardware()) if name in _HARDWARE else unknown(f"{module}.{name}")
    if module == "torch.nn" and name == "functional":
        return Module("torch.nn.functional")
    if module == "torch.nn" and name == "Parameter":
        return Native(name, lambda ev, a, k, n: a[0] if a else unknown("tensor"))
    if module in ("torch.nn", "torch.autograd") and name in ("Module", "Function"):
        return _base_class(name)
    if module == "torch.nn.functional":
        return shapes.modelled("pad", _pad) if name == "pad" else torch_member(name)
    if module == "torch.utils":
        return Module(f"torch.utils.{name}")
    return unknown(f"{module}.{name}")


def _base_class(name: str) -> Any:
    from .torch_classes import FUNCTION, MODULE

    return MODULE if name == "Module" else FUNCTION


def _as_method(ev: Any, name: str, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    """``torch.f(x, ...)`` is ``x.f(...)``."""
    first = args[0] if args else kwargs.get("input")
    if ev.builder is not None and node is not None:
        _check_host(ev, name, args, node)
    if not isinstance(first, HostTensor):
        return unknown(f"torch.{name}")
    return ev.call(tensor_attribute(first, name), args[1:], {k: v for k, v in kwargs.items() if k != "input"}, None)


def _check_host(ev: Any, name: str, args: list[Any], node: Any) -> None:
    """torch computes tensors of the host, not what a kernel computes."""
    if any(isinstance(a, (Buffer, Region, Reference)) or is_device(a) for a in args):
        ev.problem("python-builtin", f"torch's {name}() cannot compute a device value; write it with the language's own functions and operators", node)


def _dtype(kwargs: dict[str, Any], default: str) -> str:
    value = kwargs.get("dtype")
    return default if value is None else dtype_name(value) or dtypes.UNKNOWN


def _tensor(args: list[Any], kwargs: dict[str, Any], default: str) -> Any:
    shape = shapes.as_shape(kwargs["size"]) if "size" in kwargs and not args else shapes.shape_of_arguments(args)
    return unknown("tensor") if shape is None else HostTensor(shape, _dtype(kwargs, default))


def _like(args: list[Any], kwargs: dict[str, Any]) -> Any:
    if not args or not isinstance(args[0], HostTensor):
        return unknown("tensor")
    return HostTensor(args[0].shape, _dtype(kwargs, args[0].dtype))


def _randint(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``randint(low, high, size)`` and ``randint(high, size)``."""
    size = kwargs.get("size", next((x for x in args if isinstance(x, (tuple, list))), None))
    return unknown("tensor") if size is None else _tensor([size], kwargs, "int64")


def _arange(args: list[Any], kwargs: dict[str, Any]) -> Any:
    bounds = [plain(a) for a in (args or [kwargs.get("end")])]
    if len(bounds) == 1:
        count: Any = bounds[0]
    elif len(bounds) == 2 and not any(isinstance(b, float) for b in bounds):
        count = shapes.slice_extent(bounds[1], slice(bounds[0], bounds[1])) if not is_unknown(bounds[0]) else unknown("extent")
    elif all(isinstance(b, int) for b in bounds) and bounds[2]:
        count = len(range(*bounds))
    else:
        count = unknown("extent")
    return _tensor([[count]], kwargs, "int64")


def _of_data(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``torch.tensor(data)``."""
    data = args[0] if args else None
    if isinstance(data, HostTensor):
        return HostTensor(data.shape, _dtype(kwargs, data.dtype))
    shape: list[int] = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        data = data[0] if data else 0.0
    if is_unknown(data) and not shape:
        return unknown("tensor")
    return HostTensor(tuple(shape), _dtype(kwargs, "float32" if isinstance(data, float) else "bool" if isinstance(data, bool) else "int64"))


def _tensors(args: list[Any], kwargs: dict[str, Any]) -> list[HostTensor] | None:
    given = args[0] if args else kwargs.get("tensors")
    if isinstance(given, (list, tuple)) and given and all(isinstance(t, HostTensor) for t in given):
        return list(given)
    return None


def _cat(args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = _tensors(args, kwargs)
    dim = plain(args[1] if len(args) > 1 else kwargs.get("dim", 0))
    position = shapes.axis(len(parts[0].shape), dim) if parts else None
    if parts is None or position is None or any(len(p.shape) != len(parts[0].shape) for p in parts):
        return unknown("cat")
    shape = list(parts[0].shape)
    total: Any = 0
    for part in parts:
        total = plain(total + part.shape[position])
    shape[position] = total
    return HostTensor(tuple(shape), parts[0].dtype)


def _stack(args: list[Any], kwargs: dict[str, Any]) -> Any:
    parts = _tensors(args, kwargs)
    dim = plain(args[1] if len(args) > 1 else kwargs.get("dim", 0))
    position = shapes.axis(len(parts[0].shape) + 1, dim) if parts else None
    if parts is None or position is None:
        return unknown("stack")
    shape = parts[0].shape
    return HostTensor((*shape[:position], len(parts), *shape[position:]), parts[0].dtype)


def _where(args: list[Any], kwargs: dict[str, Any]) -> Any:
    tensors = [a for a in args if isinstance(a, HostTensor)]
    if len(args) != 3 or not tensors or any(is_unknown(a) for a in args):
        return unknown("where")
    shape = tensors[0].shape
    for t in tensors[1:]:
        shape = shapes.broadcast(shape, t.shape)
    return HostTensor(shape, next((a.dtype for a in args[1:] if isinstance(a, HostTensor)), "float32"))


def _einsum(args: list[Any], kwargs: dict[str, Any]) -> Any:
    shape = shapes.einsum(args[0], args[1:]) if args else None
    dtype = next((a.dtype for a in args[1:] if isinstance(a, HostTensor)), dtypes.UNKNOWN)
    return unknown("einsum") if shape is None else HostTensor(shape, dtype)


def _pad(args: list[Any], kwargs: dict[str, Any]) -> Any:
    widths = args[1] if len(args) > 1 else kwargs.get("pad")
    if not args or not isinstance(args[0], HostTensor) or not isinstance(widths, (list, tuple)) or len(widths) % 2:
        return unknown("pad")
    shape = list(args[0].shape)
    for i in range(len(widths) // 2):
        if i < len(shape):
            shape[-1 - i] = plain(shape[-1 - i] + widths[2 * i] + widths[2 * i + 1])
    return HostTensor(tuple(shape), args[0].dtype)


def tensor_binary(name: str, left: Any, right: Any) -> Any:
    """Elementwise operators on tensors."""
    try:
        return _binary(name, left, right)
    except shapes.FAULTS:
        return unknown("tensor")


def _binary(name: str, left: Any, right: Any) -> Any:
    first = left if isinstance(left, HostTensor) else right
    if is_unknown(left) or is_unknown(right) or isinstance(left, (list, tuple)) or isinstance(right, (list, tuple)):
        return unknown("tensor")
    if name == "matmul":
        return methods.matmul(left, [right], {}) if isinstance(left, HostTensor) else unknown("matmul")
    shape = shapes.broadcast(left.shape, right.shape) if isinstance(left, HostTensor) and isinstance(right, HostTensor) else first.shape
    return HostTensor(shape, "bool" if name in _COMPARISONS else first.dtype)


def _finfo(args: list[Any], kwargs: dict[str, Any]) -> Any:
    from ..tile.scalar import limit
    from ..values import Class, Instance

    name = dtype_name(args[0]) if args else None
    if name is None:
        return unknown("finfo")
    largest, smallest = limit(name, True), limit(name, False)
    values = {"max": largest, "min": smallest, "bits": dtypes.bits(name), "dtype": name}
    return Instance(Class("finfo", {}, opaque=True), {k: unknown(k) if v is None else v for k, v in values.items()}, True)


def _rand_matrix(args: list[Any], kwargs: dict[str, Any]) -> Any:
    return _tensor([[args[0], args[1] if len(args) > 1 else args[0]]], kwargs, "float32") if args else unknown("eye")


_FUNCTIONS: dict[str, Any] = {
    "full": lambda a, k: _tensor(a[:1], k, "float32") if a else _tensor([k.get("size")], k, "float32"),
    "randint": _randint, "arange": _arange, "tensor": _of_data, "as_tensor": _of_data, "asarray": _of_data,
    "randperm": lambda a, k: _tensor(a[:1], k, "int64"), "linspace": lambda a, k: _tensor(a[2:3] or [k.get("steps")], k, "float32"),
    "eye": _rand_matrix, "cat": _cat, "concat": _cat, "concatenate": _cat, "stack": _stack, "where": _where, "einsum": _einsum,
    "empty_strided": lambda a, k: _tensor(a[:1], k, "float32"), "finfo": _finfo, "iinfo": _finfo,
    "device": lambda a, k: unknown("device"), "manual_seed": lambda a, k: None,
    "normal": lambda a, k: _tensor(a[2:3] or [k.get("size")], k, "float32"),
    "no_grad": lambda a, k: unknown("no_grad"), "Size": lambda a, k: tuple(a[0]) if a and isinstance(a[0], (list, tuple)) else unknown("Size"),
    **dict.fromkeys(("randn_like", "rand_like", "empty_like", "zeros_like", "ones_like", "full_like", "randint_like"), _like),
}


def tensor_item(base: HostTensor, index: Any) -> Any:
    try:
        shape = shapes.item_shape(base.shape, index)
    except shapes.FAULTS:
        shape = None
    return unknown("item") if shape is None else HostTensor(shape, base.dtype)
