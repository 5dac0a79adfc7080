"""Attributes and methods of torch tensors, by what they do to shape and dtype."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.build import const_int
from ..values import DType, HostTensor, Native, dtype_name, is_unknown, plain, unknown
from . import torch_shapes as shapes

SAME = frozenset((
    "cuda", "cpu", "contiguous", "clone", "detach", "requires_grad_", "zero_", "normal_", "uniform_", "abs", "exp", "exp_", "relu", "relu_", "softmax",
    "random_", "fill_", "clamp", "clamp_", "clamp_min", "clamp_max", "div_", "mul_", "add_", "sub_", "copy_", "pin_memory", "log", "log2", "log1p", "sqrt",
    "rsqrt", "sigmoid", "tanh", "neg", "sign", "round", "floor", "ceil", "masked_fill", "masked_fill_", "cumsum", "cumprod", "flip", "roll",
    "triu", "tril", "triu_", "tril_", "sin", "cos", "erf", "square", "pow", "pow_", "reciprocal", "log_softmax", "retain_grad", "index_add_",
    "scatter_", "scatter", "index_copy_", "index_fill_", "bernoulli_", "exponential_", "float_power", "nan_to_num", "share_memory_", "div",
    "mul", "add", "sub", "maximum", "minimum", "logcumsumexp", "exp2", "silu", "gelu", "dropout", "normalize", "sub_", "index_put_", "trunc"))
CASTS = {"half": "float16", "float": "float32", "bfloat16": "bfloat16", "double": "float64", "int": "int32", "long": "int64", "short": "int16",
         "bool": "bool", "char": "int8", "byte": "uint8"}
_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or"))
_REDUCTIONS = {"sum": None, "mean": None, "prod": None, "amax": None, "amin": None, "norm": None, "std": None, "var": None, "logsumexp": None,
               "all": "bool", "any": "bool", "argmax": "int64", "argmin": "int64"}


def tensor_attribute(base: HostTensor, name: str) -> Any:
    if name == "shape":
        return base.shape
    if name == "dtype":
        return DType(base.dtype) if base.dtype != dtypes.UNKNOWN else unknown("dtype")
    if name in ("data", "grad"):
        return base
    if name == "ndim":
        return len(base.shape)
    if name in ("T", "mT", "H"):
        return _swap(base, [-2, -1]) if len(base.shape) >= 2 else base
    if name == "itemsize" and base.dtype != dtypes.UNKNOWN:
        return (dtypes.bits(base.dtype) + 7) // 8
    if name == "is_cuda":
        return True
    if name in ("device", "requires_grad", "is_leaf", "values", "indices"):
        return unknown(name)
    method = METHODS.get(name)
    if method is not None:
        return shapes.modelled(name, lambda a, k: method(base, a, k))
    if name in CASTS:
        return Native(name, lambda ev, a, k, n: HostTensor(base.shape, CASTS[name]))
    if name in _COMPARE:
        return shapes.modelled(name, lambda a, k: HostTensor(_broadcast_all(base, a), "bool"))
    if name in SAME:
        return shapes.modelled(name, lambda a, k: HostTensor(_broadcast_all(base, a), base.dtype))
    if name in _REDUCTIONS:
        return shapes.modelled(name, lambda a, k: reduce(base, a, k, _REDUCTIONS[name] or base.dtype))
    return unknown(name)


def _broadcast_all(base: HostTensor, args: list[Any]) -> Any:
    shape = base.shape
    for arg in args:
        if isinstance(arg, HostTensor) and len(arg.shape) <= len(shape):
            shape = shapes.broadcast(shape, arg.shape)
    return shape


def reduce(base: HostTensor, args: list[Any], kwargs: dict[str, Any], dtype: str) -> Any:
    dim = args[0] if args else kwargs.get("dim", kwargs.get("axis"))
    keepdim = args[1] if len(args) > 1 else kwargs.get("keepdim", kwargs.get("keepdims", False))
    shape = shapes.reduced(base.shape, dim, keepdim)
    return unknown("reduction") if shape is None else HostTensor(shape, (dtype_name(kwargs["dtype"]) or dtype) if "dtype" in kwargs else dtype)


def _extremum(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """``max()`` of all; ``max(dim)`` gives values and indices; ``max(other)`` is elementwise."""
    if args and isinstance(args[0], HostTensor):
        return HostTensor(shapes.broadcast(base.shape, args[0].shape), base.dtype)
    value = reduce(base, args, kwargs, base.dtype)
    if not args and "dim" not in kwargs:
        return value
    return value if is_unknown(value) else (value, HostTensor(value.shape, "int64"))


def _size(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dim = args[0] if args else kwargs.get("dim")
    if dim is None:
        return base.shape
    position = shapes.axis(len(base.shape), plain(dim))
    return unknown("size") if position is None else base.shape[position]


def _stride(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    strides = tuple(shapes.product(base.shape[i + 1:]) for i in range(len(base.shape)))
    if not args:
        return strides
    position = shapes.axis(len(strides), plain(args[0]))
    return unknown("stride") if position is None else strides[position]


def _to(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, DType):
            return HostTensor(base.shape, arg.name)
        if isinstance(arg, HostTensor):
            return HostTensor(base.shape, arg.dtype)
        if is_unknown(arg) and arg.reason in ("dtype", "argument", "extent"):
            return HostTensor(base.shape, dtypes.UNKNOWN)
    return base


def _view(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and isinstance(args[0], DType):
        return _reinterpret(base, args[0].name)
    shape = shapes.shape_of_arguments(args)
    return unknown("view") if shape is None else HostTensor(shapes.resolve_minus_one(base.shape, shape), base.dtype)


def _reinterpret(base: HostTensor, dtype: str) -> Any:
    if base.dtype == dtypes.UNKNOWN or not base.shape:
        return HostTensor(base.shape, dtype)
    old, new = dtypes.bits(base.dtype), dtypes.bits(dtype)
    return HostTensor((*base.shape[:-1], plain(base.shape[-1] * old // new)), dtype)


def _swap(base: HostTensor, args: list[Any], kwargs: Any = None) -> Any:
    rank = len(base.shape)
    found = [shapes.axis(rank, plain(a)) for a in (args or (0, 1))]
    if len(found) != 2 or None in found:
        return unknown("transpose")
    shape = list(base.shape)
    i, j = found
    shape[i], shape[j] = shape[j], shape[i]  # type: ignore[index]
    return HostTensor(tuple(shape), base.dtype)


def _permute(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    order = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    found = [shapes.axis(len(base.shape), plain(d)) for d in order]
    if len(found) != len(base.shape) or None in found:
        return unknown("permute")
    return HostTensor(tuple(base.shape[d] for d in found), base.dtype)  # type: ignore[index]


def _unsqueeze(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dim = plain(args[0] if args else kwargs.get("dim"))
    position = shapes.axis(len(base.shape) + 1, dim)
    if position is None:
        return unknown("unsqueeze")
    return HostTensor((*base.shape[:position], 1, *base.shape[position:]), base.dtype)


def _squeeze(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    dim = plain(args[0] if args else kwargs.get("dim"))
    if dim is None:
        return HostTensor(tuple(s for s in base.shape if const_int(s) != 1), base.dtype)
    position = shapes.axis(len(base.shape), dim)
    if position is None:
        return unknown("squeeze")
    return base if const_int(base.shape[position]) != 1 else HostTensor((*base.shape[:position], *base.shape[position + 1:]), base.dtype)


def _expand(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    shape = args[0].shape if len(args) == 1 and isinstance(args[0], HostTensor) else shapes.shape_of_arguments(args)
    if shape is None or len(shape) < len(base.shape):
        return unknown("expand")
    old = (1,) * (len(shape) - len(base.shape)) + base.shape
    return HostTensor(tuple(o if isinstance(s, int) and s == -1 else s for o, s in zip(old, shape)), base.dtype)


def _repeat(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    times = shapes.shape_of_arguments(args)
    if times is None or len(times) < len(base.shape):
        return unknown("repeat")
    old = (1,) * (len(times) - len(base.shape)) + base.shape
    return HostTensor(tuple(plain(o * t) for o, t in zip(old, times)), base.dtype)


def repeat_interleave(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    times = plain(args[0] if args else kwargs.get("repeats"))
    position = shapes.axis(len(base.shape), plain(args[1] if len(args) > 1 else kwargs.get("dim")))
    if position is None or isinstance(times, (HostTensor, list)):
        return unknown("repeat_interleave")
    shape = list(base.shape)
    shape[position] = plain(shape[position] * times)
    return HostTensor(tuple(shape), base.dtype)


def _flatten(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    rank = max(len(base.shape), 1)
    start = shapes.axis(rank, plain(args[0] if args else kwargs.get("start_dim", 0)))
    end = shapes.axis(rank, plain(args[1] if len(args) > 1 else kwargs.get("end_dim", -1)))
    if start is None or end is None:
        return unknown("flatten")
    return HostTensor((*base.shape[:start], shapes.product(base.shape[start:end + 1]), *base.shape[end + 1:]), base.dtype)


def chunk(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    count = plain(args[0] if args else kwargs.get("chunks"))
    position = shapes.axis(len(base.shape), plain(args[1] if len(args) > 1 else kwargs.get("dim", 0)))
    if position is None or not isinstance(count, int) or not 0 < count <= 64:
        return unknown("chunk")
    shape = list(base.shape)
    shape[position] = plain(shape[position] // count)
    return tuple(HostTensor(tuple(shape), base.dtype) for _ in range(count))


def split(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    sizes = plain(args[0] if args else kwargs.get("split_size_or_sections", kwargs.get("split_size")))
    position = shapes.axis(len(base.shape), plain(args[1] if len(args) > 1 else kwargs.get("dim", 0)))
    if position is None:
        return unknown("split")
    total = base.shape[position]
    if isinstance(sizes, int) and isinstance(total, int) and sizes > 0 and total // sizes <= 64:
        sizes = [sizes] * (total // sizes) + ([total % sizes] if total % sizes else [])
    if not isinstance(sizes, (list, tuple)):
        return unknown("split")
    return tuple(HostTensor((*base.shape[:position], s, *base.shape[position + 1:]), base.dtype) for s in sizes)


def _unbind(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    position = shapes.axis(len(base.shape), plain(args[0] if args else kwargs.get("dim", 0)))
    if position is None or not isinstance(base.shape[position], int) or base.shape[position] > 64:
        return unknown("unbind")
    shape = (*base.shape[:position], *base.shape[position + 1:])
    return tuple(HostTensor(shape, base.dtype) for _ in range(base.shape[position]))


def _gather(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    index = args[1] if len(args) > 1 else kwargs.get("index")
    return HostTensor(index.shape, base.dtype) if isinstance(index, HostTensor) else unknown("gather")


def topk(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    count = plain(args[0] if args else kwargs.get("k"))
    position = shapes.axis(len(base.shape), plain(args[1] if len(args) > 1 else kwargs.get("dim", -1)))
    if position is None:
        return unknown("topk")
    shape = (*base.shape[:position], count, *base.shape[position + 1:])
    return (HostTensor(shape, base.dtype), HostTensor(shape, "int64"))


def _new(default: Any) -> Any:
    def make(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
        shape = shapes.shape_of_arguments(args if default is not None else args[:1])
        dtype = (dtype_name(kwargs["dtype"]) or dtypes.UNKNOWN) if "dtype" in kwargs else base.dtype
        return unknown("tensor") if shape is None else HostTensor(shape, dtype)

    return make


def matmul(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    other = args[0] if args else None
    shape = shapes.matmul(base.shape, other.shape) if isinstance(other, HostTensor) else None
    return unknown("matmul") if shape is None else HostTensor(shape, base.dtype)


def sort(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return (base, HostTensor(base.shape, "int64"))


def _nonzero(base: HostTensor, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("as_tuple") is True:
        return tuple(HostTensor((unknown("extent"),), "int64") for _ in base.shape)
    return HostTensor((unknown("extent"), len(base.shape)), "int64")


METHODS: dict[str, Any] = {
    "nonzero": _nonzero, "as_strided": lambda b, a, k: _view(HostTensor((), b.dtype), [a[0]], {}) if a else unknown("as_strided"),
    "size": _size, "stride": _stride, "to": _to, "type": _to, "view": _view, "reshape": _view, "transpose": _swap, "swapaxes": _swap, "t": _swap,
    "permute": _permute, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "expand": _expand, "repeat": _repeat, "tile": _repeat,
    "repeat_interleave": repeat_interleave, "flatten": _flatten, "chunk": chunk, "split": split, "unbind": _unbind, "gather": _gather,
    "topk": topk, "new_empty": _new(0), "new_zeros": _new(0), "new_ones": _new(0), "new_full": _new(None), "matmul": matmul, "bmm": matmul, "mm": matmul,
    "sort": sort, "max": _extremum, "min": _extremum, "expand_as": _expand,
    "view_as": lambda b, a, k: HostTensor(a[0].shape, b.dtype) if a and isinstance(a[0], HostTensor) else unknown("view_as"),
    "type_as": _to, "dim": lambda b, a, k: len(b.shape), "numel": lambda b, a, k: shapes.product(b.shape),
    "nelement": lambda b, a, k: shapes.product(b.shape), "is_contiguous": lambda b, a, k: True,
    "element_size": lambda b, a, k: unknown("element_size") if b.dtype == dtypes.UNKNOWN else (dtypes.bits(b.dtype) + 7) // 8,
    "argsort": lambda b, a, k: HostTensor(b.shape, "int64"), "backward": lambda b, a, k: None,
    "is_floating_point": lambda b, a, k: unknown("dtype") if b.dtype == dtypes.UNKNOWN else dtypes.is_float(b.dtype),
}
