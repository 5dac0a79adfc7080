"""Run-time extents taken for multiples of 16 bytes.

Rows of most tensors are whole multiples of 16 bytes, which wide accesses and tensor maps need. A program whose lowering relies on it has a second
version for all other sizes and for tensors that start elsewhere (``Artifact.general``); the launcher chooses.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Cast, Const, Var
from ..ir.program import TileProgram
from ..records import dataclass

_BITS = 128


@dataclass
class Assumption:
    """``used``: some decision rests on it."""

    multiples: Mapping[Var, int]
    used: bool = False


_current: ContextVar[Assumption | None] = ContextVar("assumption", default=None)


def row_lengths(program: TileProgram) -> dict[Var, int]:
    """The extents and strides by which rows of the parameters are told apart, and what they are taken for multiples of."""
    found: dict[Var, int] = {}
    for p in program.params:
        if not isinstance(p, Buffer) or not p.shape or not 8 <= dtypes.bits(p.dtype) < _BITS:
            continue
        for e in (p.shape[-1], *(p.strides or ())[:-1]):
            if isinstance(e, Var):
                found[e] = max(found.get(e, 1), _BITS // dtypes.bits(p.dtype))
    return found


@contextmanager
def assuming(multiples: Mapping[Var, int]) -> Iterator[Assumption]:
    made = Assumption(multiples)
    token = _current.set(made)
    try:
        yield made
    finally:
        _current.reset(token)


def is_assumed(var: Var, factor: int) -> bool:
    """Whether the program being lowered may take a variable for a multiple of ``factor``."""
    current = _current.get()
    if current is None or current.multiples.get(var, 1) % factor:
        return False
    current.used = True
    return True


def hold(multiples: Mapping[Var, int], values: Mapping[Var, int]) -> bool:
    return all(values.get(var, 0) % factor == 0 for var, factor in multiples.items())


def is_multiple(e: Any, factor: int) -> bool:
    """Whether an index is certainly a multiple of ``factor``."""
    if isinstance(e, int):
        return e % factor == 0
    if isinstance(e, Const):
        return int(e.value) % factor == 0
    if isinstance(e, Cast):
        return is_multiple(e.a, factor)
    if isinstance(e, Var):
        return is_assumed(e, factor)
    if isinstance(e, Binary):
        if e.op in ("add", "sub", "min", "max"):
            return is_multiple(e.a, factor) and is_multiple(e.b, factor)
        if e.op == "mul":
            return is_multiple(e.a, factor) or is_multiple(e.b, factor) or _product_is_multiple(e, factor)
        if e.op == "floormod":
            return is_multiple(e.a, factor) and is_multiple(e.b, factor)
        if e.op == "floordiv":
            divisor = const_int(e.b)
            return divisor is not None and divisor > 0 and is_multiple(e.a, factor * divisor)
    return False


def _product_is_multiple(e: Binary, factor: int) -> bool:
    """Both operands together: 4 * x times 2 is a multiple of 8."""
    known = const_int(e.b)
    return known is not None and known != 0 and factor % known == 0 and is_multiple(e.a, factor // known)
