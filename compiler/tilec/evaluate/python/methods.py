"""Methods of Python's built-in types on known values."""
from __future__ import annotations

from pathlib import PurePath
from typing import Any

from ..evaluator import Evaluator
from ..values import MISSING, HostTensor, Native, is_unknown, unknown
from .torch_shapes import product

_PURE = {
    str: {"lower", "upper", "strip", "lstrip", "rstrip", "split", "startswith", "endswith", "replace", "join", "format", "find", "count",
          "title", "capitalize", "isdigit", "zfill", "removeprefix", "removesuffix", "index", "rsplit", "partition", "encode"},
    list: {"index", "count", "copy"},
    tuple: {"index", "count"},
    dict: {"get", "keys", "values", "items", "copy"},
    int: {"bit_length"},
    float: {"is_integer"},
    set: {"union", "intersection", "difference", "copy", "issubset"},
}
_MUTATING = {list: {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"}, dict: {"update", "pop", "setdefault", "clear"},
             set: {"add", "update", "discard", "remove"}}


def method(base: Any, name: str) -> Any:
    """The bound method of a known value, or MISSING."""
    if name == "numel" and isinstance(base, tuple):  # a torch.Size
        return Native(name, lambda ev, args, kwargs, node: product(base))
    if name in ("values", "indices") and isinstance(base, tuple) and len(base) == 2 and isinstance(base[0], HostTensor):
        return base[name == "indices"]  # of torch.topk and the like
    for table in (_PURE, _MUTATING):
        for kind, names in table.items():
            if isinstance(base, kind) and name in names:
                return Native(name, _caller(base, name))
    if isinstance(base, PurePath):
        return _path_attribute(base, name)
    if isinstance(base, (int, float)) and name in ("real", "imag", "numerator", "denominator"):
        return getattr(base, name)
    return MISSING


def _path_attribute(base: PurePath, name: str) -> Any:
    if name in ("parent", "name", "stem", "suffix", "parents"):
        found = getattr(base, name)
        return list(found) if name == "parents" else found
    if name in ("resolve", "absolute", "expanduser"):
        return Native(name, lambda ev, args, kwargs, node: base)
    return Native(name, _caller(base, name)) if name in ("joinpath", "with_suffix", "with_name", "as_posix") else MISSING


def _caller(base: Any, name: str) -> Any:
    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        if any(is_unknown(a) for a in args) and name not in ("append", "get", "add", "setdefault", "insert"):
            return unknown(name)
        try:
            value = getattr(base, name)(*args, **kwargs)
        except Exception:
            return unknown(name)
        return list(value) if name in ("keys", "values", "items") else value

    return call
