"""torch as kernels' host code uses it: dtypes, and tensors by shape and dtype."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ..values import DType, HostTensor, Native, dtype_name, unknown

_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
           "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "half", "float", "double", "int",
           "short", "long")
_FACTORIES = {"randn": "float32", "rand": "float32", "empty": "float32", "zeros": "float32", "ones": "float32"}
_SAME = {"cuda", "cpu", "contiguous", "clone", "detach", "requires_grad_", "zero_", "normal_", "uniform_", "abs", "exp", "relu", "softmax",
         "random_", "fill_", "clamp", "div_", "mul_", "add_", "copy_", "pin_memory"}
_CASTS = {"half": "float16", "float": "float32", "bfloat16": "bfloat16", "double": "float64", "int": "int32", "long": "int64",
          "bool": "bool", "char": "int8"}


def torch_member(name: str) -> Any:
    if name in _DTYPES:
        return DType("float16" if name == "half" else dtypes.canonical(name) or name)
    if name in _FACTORIES:
        return Native(name, _factory(_FACTORIES[name]))
    if name == "full":
        return Native(name, lambda ev, a, k, n: _tensor(a[:1], k, "float32") if a else unknown("full"))
    if name == "randint":
        return Native(name, lambda ev, a, k, n: _tensor([next((x for x in a if isinstance(x, (tuple, list))), None)], k, "int64"))
    if name in ("randn_like", "rand_like", "empty_like", "zeros_like", "ones_like", "full_like"):
        return Native(name, _like)
    if name == "arange":
        return Native(name, lambda ev, a, k, n: _tensor([a[:1]], k, "int64") if len(a) == 1 else unknown("arange"))
    return unknown(f"torch.{name}")


def _factory(default: str) -> Any:
    return lambda ev, args, kwargs, node: _tensor(args, kwargs, default)


def _tensor(args: list[Any], kwargs: dict[str, Any], default: str) -> Any:
    shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else tuple(args)
    if "size" in kwargs and not args:
        shape = kwargs["size"]
    if not isinstance(shape, (tuple, list)) or not all(isinstance(s, int) for s in shape):
        return unknown("tensor")
    dtype = dtype_name(kwargs["dtype"]) if "dtype" in kwargs else default
    return HostTensor(tuple(shape), dtype or dtypes.UNKNOWN)


def _like(ev: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
    if not args or not isinstance(args[0], HostTensor):
        return unknown("tensor")
    return HostTensor(args[0].shape, (dtype_name(kwargs["dtype"]) or dtypes.UNKNOWN) if "dtype" in kwargs else args[0].dtype)


def tensor_attribute(base: HostTensor, name: str) -> Any:
    if name == "shape":
        return base.shape
    if name == "dtype":
        return DType(base.dtype) if base.dtype != dtypes.UNKNOWN else unknown("dtype")
    if name == "size":
        return Native(name, lambda ev, a, k, n: base.shape[a[0]] if a and isinstance(a[0], int) and -len(base.shape) <= a[0] < len(base.shape)
                      else base.shape)
    if name in ("dim", "numel"):
        return Native(name, lambda ev, a, k, n: len(base.shape) if name == "dim" else unknown("numel"))
    if name == "T" and len(base.shape) == 2:
        return HostTensor(base.shape[::-1], base.dtype)
    if name in _CASTS:
        return Native(name, lambda ev, a, k, n: HostTensor(base.shape, _CASTS[name]))
    if name == "to":
        return Native(name, lambda ev, a, k, n: _to(base, [*a, *k.values()]))
    if name in ("view", "reshape"):
        return Native(name, lambda ev, a, k, n: _reshape(base, a))
    if name in _SAME:
        return Native(name, lambda ev, a, k, n: HostTensor(base.shape, base.dtype))
    return unknown(name)


def _to(base: HostTensor, args: list[Any]) -> Any:
    for arg in args:
        if isinstance(arg, DType):
            return HostTensor(base.shape, arg.name)
        if not isinstance(arg, str):
            return HostTensor(base.shape, dtypes.UNKNOWN)
    return HostTensor(base.shape, base.dtype)


def _reshape(base: HostTensor, args: list[Any]) -> Any:
    shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else tuple(args)
    if not all(isinstance(s, int) for s in (*shape, *base.shape)):
        return unknown("view")
    total = 1
    for s in base.shape:
        total *= s
    known = 1
    for s in shape:
        known *= s if s != -1 else 1
    return HostTensor(tuple(total // max(known, 1) if s == -1 else s for s in shape), base.dtype)


def tensor_item(base: HostTensor, index: Any) -> Any:
    return unknown("item")
