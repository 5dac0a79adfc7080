"""Shapes of torch tensors: arithmetic on extents that are integers, run-time sizes or unknown."""
from __future__ import annotations

from typing import Any

from ...ir.build import const_int
from ...ir.expr import Expr
from ..values import HostTensor, Native, is_unknown, plain, unknown

Shape = tuple[Any, ...]


# What a model raises for arguments of kinds it does not foresee.
FAULTS = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError)


def modelled(name: str, function: Any) -> Native:
    """A function on tensors, ``function(args, kwargs)``: unknown for arguments that it does not foresee."""

    def call(ev: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        try:
            return function(args, kwargs)
        except FAULTS:
            return unknown(name)

    return Native(name, call)


def as_shape(value: Any) -> Shape | None:
    """A shape argument: a sequence of extents, or one extent; None if their number is not known."""
    value = plain(value)
    if isinstance(value, (tuple, list)):
        return tuple(_extent(v) for v in value)
    return (value,) if _is_extent(value) else None


def shape_of_arguments(args: list[Any]) -> Shape | None:
    """``f(2, 3)`` and ``f((2, 3))``."""
    return as_shape(args[0]) if len(args) == 1 else as_shape(args)


def _is_extent(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, Expr) and not is_unknown(value))


def _extent(value: Any) -> Any:
    value = plain(value)
    return value if _is_extent(value) else unknown("extent")


def product(extents: Any) -> Any:
    total: Any = 1
    for extent in extents:
        total = plain(total * extent)
    return total


def axis(rank: int, dim: Any) -> int | None:
    """A dimension argument counted from the front."""
    if not isinstance(dim, int) or not -rank <= dim < rank:
        return None
    return dim % rank


def resolve_minus_one(old: Shape, new: Shape) -> Shape:
    """The new shape of a view with its -1 worked out."""
    if not any(n == -1 for n in new if isinstance(n, int)):
        return new
    known = product(n for n in new if not (isinstance(n, int) and n == -1))
    total = product(old)
    if isinstance(known, int) and known == 0:
        return tuple(unknown("extent") if isinstance(n, int) and n == -1 else n for n in new)
    return tuple(plain(total // known) if isinstance(n, int) and n == -1 else n for n in new)


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of an elementwise operation."""
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(y if const_int(x) == 1 else x for x, y in zip(a, b))


def matmul(a: Shape, b: Shape) -> Shape | None:
    if not a or not b:
        return None
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(a) == 1:
        return (*b[:-2], b[-1])
    if len(b) == 1:
        return a[:-1]
    return (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])


def reduced(shape: Shape, dim: Any, keepdim: Any) -> Shape | None:
    """The shape after reducing ``dim`` (None: all)."""
    if dim is None:
        return (1,) * len(shape) if keepdim is True else ()
    dims = [axis(len(shape), d) for d in (dim if isinstance(dim, (tuple, list)) else [dim])]
    if any(d is None for d in dims) or is_unknown(keepdim):
        return None
    if keepdim:
        return tuple(1 if i in dims else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in dims)


def einsum(equation: Any, operands: list[Any]) -> Shape | None:
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    extents: dict[str, Any] = {}
    for letters, operand in zip(inputs.split(","), operands):
        if isinstance(operand, HostTensor) and len(letters) == len(operand.shape):
            extents.update(zip(letters, operand.shape))
    return tuple(extents.get(letter, unknown("extent")) for letter in output)


def slice_extent(extent: Any, index: slice) -> Any:
    """How many elements a slice takes."""
    start, stop, step = (plain(v) for v in (index.start, index.stop, index.step))
    if any(v is not None and not _is_extent(v) for v in (start, stop)):
        return unknown("extent")
    if step not in (None, 1):
        if isinstance(extent, int) and all(v is None or isinstance(v, int) for v in (start, stop, step)):
            return len(range(*index.indices(extent)))
        return unknown("extent")
    if start is None and stop is None:
        return extent
    if all(v is None or isinstance(v, int) for v in (start, stop)) and isinstance(extent, int):
        return len(range(*index.indices(extent)))
    if isinstance(start, int) and start < 0:
        return -start if stop is None else unknown("extent")
    if stop is None:
        return plain(extent - start)
    if isinstance(stop, int) and stop < 0:
        return plain(extent + stop - (start or 0))
    return plain(stop - (start or 0))


def _dimensions(index: Any) -> int:
    """How many dimensions one part of an index takes."""
    if index is None or index is ...:
        return 0
    return max(len(index.shape), 1) if isinstance(index, HostTensor) and index.dtype == "bool" else 1


def item_shape(shape: Shape, index: Any) -> Shape | None:
    """The shape of ``tensor[index]``; a mask leaves an extent unknown. None if the index does not fit or is not known."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(_dimensions(p) for p in parts)
    if any(is_unknown(p) for p in parts) or taken > len(shape):
        return None
    if ... not in [p for p in parts if not isinstance(p, (Expr, HostTensor))]:
        parts.append(...)
    found: list[Any] = []
    position = 0
    tensors = [p for p in parts if isinstance(p, HostTensor)]
    for part in parts:
        if part is None:
            found.append(1)
        elif part is ...:
            rest = len(shape) - taken
            found += shape[position:position + rest]
            position += rest
        elif isinstance(part, slice):
            found.append(slice_extent(shape[position], part))
            position += 1
        elif isinstance(part, HostTensor):
            if part is tensors[0]:
                found += [unknown("extent")] if part.dtype == "bool" else part.shape
            position += _dimensions(part)
        elif isinstance(part, (list, tuple)):
            found.append(len(part))
            position += 1
        else:
            position += 1
    return tuple(found)
