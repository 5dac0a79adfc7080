"""Atomic additions to neighbours in memory, one statement after the other, as one instruction: what T.atomic_addx4 becomes after expansion.

Each lane is an addition of its own until guards are in place. Lanes whose places follow each other from an aligned one, under conditions that hold
for all of them or for none, are added at once; what they add is read before.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir import dtypes
from ..ir.affine import known_difference, linear
from ..ir.buffer import GLOBAL, Buffer
from ..ir.build import const, const_int
from ..ir.expr import Binary, Expr, Load, Var, equal
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, For, If, Stmt, Store, TileOp
from ..records import dataclass
from .atomics import adds_at_once, wide_add
from .guard import conjuncts
from .sizes import is_multiple

if TYPE_CHECKING:
    from .parallel import LoopLowering


@dataclass
class _Addition:
    op: TileOp
    condition: Expr | None

    @property
    def place(self) -> tuple[Expr, ...]:
        return self.op.region("dst").mins

    @property
    def buffer(self) -> Buffer:
        return self.op.region("dst").buffer

    @property
    def value(self) -> Expr:
        return self.op.args["value"]


def joined_additions(body: Body, values: dict[Var, Expr], loop: LoopLowering) -> tuple[Body, int]:
    """The additions that ``body`` begins with as one, and how many they are; none and 0 if they cannot be joined."""
    for width in (4, 2):
        lanes = [_addition(s) for s in body[:width]]
        if len(lanes) == width and _are_neighbours(lanes, loop):
            return _at_once([x for x in lanes if x is not None], values, loop), width
    return (), 0


def _addition(s: Stmt) -> _Addition | None:
    if isinstance(s, If) and not s.other and len(s.then) == 1:
        inner = _addition(s.then[0])
        return None if inner is None or inner.condition is not None else _Addition(inner.op, s.cond)
    return _Addition(s, None) if isinstance(s, TileOp) and s.op == "atomic" and isinstance(s.args.get("value"), Expr) else None


def _are_neighbours(lanes: list[_Addition | None], loop: LoopLowering) -> bool:
    first, width = lanes[0], len(lanes)
    if first is None or not adds_at_once(first.op, width, loop.state.target) or not starts_vector(first.buffer, first.place, width):
        return False
    for k, lane in enumerate(lanes):
        if lane is None or lane.buffer is not first.buffer or not adds_at_once(lane.op, width, loop.state.target):
            return False
        if not all(map(equal, lane.place[:-1], first.place[:-1])) or known_difference(lane.place[-1], first.place[-1]) != k:
            return False
        if not _same_condition(first.condition, lane.condition, k, width) or _reads(lane.value, first.buffer):
            return False
    return True


def starts_vector(b: Buffer, indices: tuple[Expr, ...], width: int) -> bool:
    """Whether ``width`` elements from this one on are neighbours in memory, the first of them aligned to all."""
    if not indices or dtypes.bits(b.dtype) < 8 or b.view_of is not None or (b.offset is not None):
        return False
    terms, total = linear(indices[-1])
    if total % width or not all(factor % width == 0 or is_multiple(term * factor, width) for term, factor in terms):
        return False
    if b.strides is not None:
        return const_int(b.strides[-1]) == 1 and all(is_multiple(x, width) for x in b.strides[:-1])
    return b.ndim == 1 or is_multiple(b.shape[-1], width)


def _same_condition(first: Expr | None, other: Expr | None, k: int, width: int) -> bool:
    """Whether lane ``k`` is added exactly if the first one is."""
    if first is None or other is None:
        return first is other
    parts, others = conjuncts(first), conjuncts(other)
    return len(parts) == len(others) and all(equal(a, b) or _same_bound(a, b, k, width) for a, b in zip(parts, others))


def _same_bound(a: Expr, b: Expr, k: int, width: int) -> bool:
    """Bounds that are multiples of the width, met by an aligned index."""
    if not (isinstance(a, Binary) and isinstance(b, Binary) and a.op == b.op and a.op in ("lt", "ge") and equal(a.b, b.b)):
        return False
    terms, total = linear(a.a)
    aligned = total % width == 0 and all(factor % width == 0 or is_multiple(term * factor, width) for term, factor in terms)
    return aligned and is_multiple(a.b, width) and known_difference(b.a, a.a) == k


def _reads(e: Expr, b: Buffer) -> bool:
    return any(isinstance(x, Load) and x.buffer.storage() is b.storage() or getattr(x, "op", "").startswith("atomic_") for x in walk_expr(e))


def _at_once(lanes: list[_Addition], values: dict[Var, Expr], loop: LoopLowering) -> Body:
    first, width, span = lanes[0], len(lanes), lanes[0].op.span
    added = loop.state.temporary_local("added", width, first.buffer.dtype, span)
    out: list[Stmt] = [Alloc(span, added)]
    out += _wide_read(lanes, added, values, loop) or [Store(span, added, (const(k),), loop.expression(x.value, values)) for k, x in enumerate(lanes)]
    place = loop.state.shared_element(first.buffer, tuple(loop.expression(i, values) for i in first.place))
    out.append(wide_add(first.op, *place, added, width))
    body = loop.once(tuple(out), span)
    return body if first.condition is None else (If(span, loop.expression(first.condition, values), body),)


def _wide_read(lanes: list[_Addition], added: Buffer, values: dict[Var, Expr], loop: LoopLowering) -> list[Stmt]:
    """What is added read with one access, where it lies side by side in memory as well."""
    first = lanes[0].value
    if not isinstance(first, Load) or not (first.buffer.scope == GLOBAL or first.buffer.is_shared()) or first.dtype != added.dtype:
        return []
    if not starts_vector(first.buffer, first.indices, len(lanes)):
        return []
    for k, lane in enumerate(lanes):
        v = lane.value
        if not (isinstance(v, Load) and v.buffer is first.buffer and all(map(equal, v.indices[:-1], first.indices[:-1]))
                and known_difference(v.indices[-1], first.indices[-1]) == k):
            return []
    span, step = lanes[0].op.span, Var("int32", None, "lane", "loop")
    buffer, place = loop.state.shared_element(first.buffer, tuple(loop.expression(i, values) for i in first.indices))
    source = Load(first.dtype, None, buffer, (*place[:-1], place[-1] + step))
    return [For(span, step, const(0), const(len(lanes)), (Store(span, added, (step,), source),), "vectorized")]
