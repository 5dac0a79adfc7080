"""einops' rearrange, repeat and reduce, by shape."""
from __future__ import annotations

import re
from typing import Any

from ..values import HostTensor, is_unknown, plain, unknown
from .torch_shapes import einsum, modelled, product


def einops_member(name: str) -> Any:
    if name in ("rearrange", "repeat", "reduce"):
        return modelled(name, _rearrange)
    if name == "einsum":
        return modelled(name, lambda a, k: _einsum(a))
    return None


def _groups(text: str) -> list[list[str]]:
    """``"b (h d)"`` as ``[["b"], ["h", "d"]]``."""
    return [part.strip("()").split() for part in re.findall(r"\([^)]*\)|\S+", text)]


def _rearrange(args: list[Any], kwargs: dict[str, Any]) -> Any:
    tensor, pattern = args[0] if args else None, args[1] if len(args) > 1 else kwargs.get("pattern")
    if not isinstance(tensor, HostTensor) or not isinstance(pattern, str) or "->" not in pattern:
        return unknown("rearrange")
    if "..." in pattern:
        pattern = _without_ellipsis(pattern, len(tensor.shape))
    before, after = (_groups(side) for side in pattern.split("->"))
    if len(before) != len(tensor.shape):
        return unknown("rearrange")
    extents: dict[str, Any] = {n: plain(v) for n, v in kwargs.items() if n != "reduction"}
    for group, extent in zip(before, tensor.shape):
        _solve(group, extent, extents)
    return HostTensor(tuple(product(_extent(n, extents) for n in group) for group in after), tensor.dtype)


def _without_ellipsis(pattern: str, rank: int) -> str:
    """``...`` as names of the dimensions it stands for."""
    named = len(_groups(pattern.split("->")[0].replace("...", "")))
    return pattern.replace("...", " ".join(f"dim{i}" for i in range(rank - named)))


def _extent(name: str, extents: dict[str, Any]) -> Any:
    return int(name) if name.isdigit() else extents.get(name, unknown("extent"))


def _solve(group: list[str], extent: Any, extents: dict[str, Any]) -> None:
    open_ = [n for n in group if n not in extents and not n.isdigit()]
    if len(open_) != 1:
        return
    known = product(_extent(n, extents) for n in group if n != open_[0])
    extents[open_[0]] = unknown("extent") if is_unknown(known) or known == 0 else plain(extent // known)


def _einsum(args: list[Any]) -> Any:
    """``einsum(x, y, "b h d, b s d -> b h s")``: names of several letters, the pattern last."""
    if not args or not isinstance(args[-1], str) or "->" not in args[-1]:
        return unknown("einsum")
    names = {n: chr(97 + i) for i, n in enumerate(dict.fromkeys(re.findall(r"\w+", args[-1])))}
    letters = re.sub(r"\w+", lambda m: names[m.group()], args[-1])
    shape = einsum(letters, args[:-1])
    first = args[0]
    return HostTensor(shape, first.dtype) if shape is not None and isinstance(first, HostTensor) else unknown("einsum")
