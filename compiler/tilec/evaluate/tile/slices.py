"""``buffer[a:b] = value``: a slice of one thread's vector store."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.affine import known_difference
from ...ir.buffer import Region, tile_axes
from ...ir.build import call, cast, const, const_int, lift
from ...ir.expr import Call, Expr, Load, Var, walk
from ...ir.stmt import For, Store, TileOp
from ...source.span import Span
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import is_unknown, plain


def store_slice(ev: Evaluator, place: Region, value: Any, span: Span) -> bool:
    """Emit the store; False if the value is not understood."""
    builder = ev.builder
    assert builder is not None
    axes = tile_axes(place)
    if place.form != "slice" or len(axes) != 1 or const_int(place.extents[axes[0]]) is None:
        return False
    if isinstance(value, Region):
        return _copy(ev, place, axes[0], value, span)
    value = plain(scalar_operand(value))
    if not isinstance(value, (int, float, Expr)) or is_unknown(value):
        return False
    value = lift(value)
    if dtypes.lanes(value.dtype) > 1 or any(isinstance(e, Call) for e in walk(value)):
        builder.emit(TileOp(span, "store_slice", {"dst": place, "value": value}))
        return True
    _loop(ev, place, axes[0], lambda step: value, span)
    return True


def _copy(ev: Evaluator, place: Region, axis: int, source: Region, span: Span) -> bool:
    axes = tile_axes(source)
    if source.form != "slice" or len(axes) != 1 or known_difference(source.extents[axes[0]], place.extents[axis]) != 0:
        return False

    if source.buffer.storage() is place.buffer.storage():  # all is read before anything is written
        ev.builder.emit(TileOp(span, "store_slice", {"dst": place, "value": vector_of(source, axes[0])}))  # type: ignore[union-attr]
        return True

    def element(step: Var) -> Expr:
        indices = tuple(m + step if i == axes[0] else m for i, m in enumerate(source.mins))
        return Load(source.dtype, span, source.buffer, indices)

    _loop(ev, place, axis, element, span)
    return True


def vector_of(source: Region, axis: int) -> Expr:
    """A slice as a vector."""
    lanes = const_int(source.extents[axis]) or 1
    base = source.mins[axis]
    indices = tuple(call("ramp", (m, const(1, base.dtype)), f"{dtypes.scalar(base.dtype)}x{lanes}", source.span, lanes=lanes) if i == axis else m
                    for i, m in enumerate(source.mins))
    return Load(f"{source.dtype}x{lanes}", source.span, source.buffer, indices)


def _loop(ev: Evaluator, place: Region, axis: int, element: Any, span: Span) -> None:
    """One element after the other, as a vectorized loop."""
    assert ev.builder is not None
    step = Var("int32", span, ev.builder.unique("v"), "loop")
    indices = tuple(m + step if i == axis else m for i, m in enumerate(place.mins))
    body = (Store(span, place.buffer, indices, cast(element(step), place.dtype)),)
    ev.builder.emit(For(span, step, const(0), place.extents[axis], body, "vectorized"))
