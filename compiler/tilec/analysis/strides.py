"""Addresses as sums: by how many elements an access moves with each variable, and what its alignment is."""
from __future__ import annotations

from math import gcd

from ..ir.affine import linear
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Cast, Expr, Unknown, Var
from ..ir.expr import walk as walk_expr
from ..records import dataclass


@dataclass(eq=False, repr=False)
class Address:
    """``steps``: elements a variable's unit moves the address by. ``nonlinear``: variables inside other terms.
    ``alignment``: what divides the constant and the terms that are no loop variable (0: there are none)."""

    steps: dict[Var, int]
    nonlinear: set[Var]
    alignment: int
    constant: int


def element_strides(buffer: Buffer) -> list[int] | None:
    """Elements between neighbours of each dimension; None if one is not a literal."""
    if buffer.strides is not None:
        given = [const_int(s) for s in buffer.strides]
        return None if any(s is None for s in given) else given  # type: ignore[return-value]
    strides, stride = [1], 1
    for extent in reversed(buffer.shape[1:]):
        size = const_int(extent)
        if size is None:
            return None
        stride *= size
        strides.insert(0, stride)
    return strides


def address(buffer: Buffer, indices: tuple[Expr, ...], variables: tuple[Var, ...]) -> Address | None:
    """None where something is not known."""
    strides = element_strides(buffer)
    if strides is None or len(strides) != len(indices):
        return None
    found = Address({}, set(), 0, 0)
    for index, stride in zip(indices, strides):
        if any(isinstance(x, Unknown) for x in walk_expr(index)):
            return None
        terms, constant = linear(index)
        found.constant += constant * stride
        for term, factor in terms:
            if isinstance(term, Var) and term in variables:
                found.steps[term] = found.steps.get(term, 0) + factor * stride
                continue
            found.nonlinear |= {x for x in walk_expr(term) if isinstance(x, Var) and x in variables}
            found.alignment = gcd(found.alignment, factor * stride * divisor(term))
    found.alignment = gcd(found.alignment, found.constant)
    return found


def divisor(e: Expr) -> int:
    """A number that divides the expression whatever its variables are, as far as TileLang proves it (0: it is 0)."""
    value = const_int(e)
    if value is not None:
        return abs(value)
    if isinstance(e, Cast):
        return divisor(e.a)
    if not isinstance(e, Binary):
        return 1
    if e.op == "mul":
        return divisor(e.a) * divisor(e.b)
    if e.op in ("add", "sub", "min", "max", "floormod", "truncmod"):
        return gcd(divisor(e.a), divisor(e.b))
    by = const_int(e.b)
    if by is None or by < 0 or (e.op == "shr" and by > 31):
        return 1
    if e.op == "bitand" and by & (by + 1) == 0:
        return gcd(divisor(e.a), by + 1)
    if e.op in ("floordiv", "truncdiv", "shr"):
        whole = divisor(e.a)
        by = 1 << by if e.op == "shr" else by
        return whole // by if by and whole and whole % by == 0 else 1
    return 1
