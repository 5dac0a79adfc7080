"""Elements and slices of buffers."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import build, dtypes
from ...ir.buffer import VAR, Buffer, Region, whole
from ...ir.build import const, const_int
from ...ir.expr import Const, Expr, Load
from ...ir.stmt import Store, TileOp
from ...source.span import Span
from ..evaluator import Evaluator
from ..values import Reference, is_unknown, unknown


def as_scalar(value: Any) -> Any:
    """What a value means where a scalar is wanted: the element of a variable or reference, everything else itself."""
    if isinstance(value, Buffer) and value.scope == VAR and not value.attrs.get("unnamed"):
        return Load(value.dtype, None, value, tuple(const(0) for _ in value.shape))
    if isinstance(value, Reference):
        return Load(value.buffer.dtype, None, value.buffer, value.indices)
    return value


def index_buffer(ev: Evaluator, base: Buffer | Region, index: Any, node: ast.Subscript) -> Any:
    """``buffer[index]``: an element (Load) or, with a slice among the indices, a Region."""
    if isinstance(base, Region):
        return _index_region(ev, base, index, node)
    items = _expand(base, index)
    if items is None or not _check_rank(ev, base, items, node):
        return unknown("element")
    spans = _index_spans(ev, node, len(items))
    if any(isinstance(i, slice) for i in items):
        return _slice(ev, base, items, spans, node)
    indices = tuple(_index(ev, base, i, s, node) for i, s in zip(items, spans))
    return Load(_vector_type(base.dtype, indices), ev.span(node), base, indices)


def _vector_type(dtype: str, indices: tuple[Expr, ...]) -> str:
    """The type of what stands at indices of which one may be a vector (T.Ramp)."""
    lanes = max((dtypes.lanes(i.dtype) for i in indices if i.dtype != dtypes.UNKNOWN), default=1)
    return f"{dtypes.scalar(dtype)}x{lanes}" if lanes > 1 and dtype != dtypes.UNKNOWN else dtype


def _expand(base: Buffer, index: Any) -> list[Any] | None:
    """One entry per dimension; ``...`` stands for whole dimensions. None if the index is not known at all."""
    items = list(index) if isinstance(index, tuple) else list(index) if isinstance(index, list) else [index]
    if len(items) == 1 and is_unknown(items[0]) and base.ndim > 1:
        return None
    if any(i is ... for i in items):
        at = next(k for k, i in enumerate(items) if i is ...)
        items[at:at + 1] = [slice(None)] * (base.ndim - len(items) + 1)
    return items


def _check_rank(ev: Evaluator, base: Buffer, items: list[Any], node: ast.Subscript) -> bool:
    if len(items) == base.ndim:
        return True
    what = "index" if len(items) == 1 else "indices"
    related = ((f"{base.name} has {base.ndim} dimension{'s' if base.ndim != 1 else ''}", base.span),) if base.span else ()
    ev.problem("index-rank", f"{base.name} has {base.ndim} dimension{'s' if base.ndim != 1 else ''} but is accessed with {len(items)} {what}",
               node, *related)
    return False


def _index_spans(ev: Evaluator, node: ast.Subscript, count: int) -> list[Span | None]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) == count and not any(isinstance(p, ast.Starred) for p in parts):
        return [ev.span(p) for p in parts]
    return [None] * count


def _index(ev: Evaluator, base: Buffer, value: Any, span: Span | None, node: ast.AST) -> Expr:
    value = as_scalar(value)
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        return Const("int32" if -(2**31) <= value < 2**31 else "int64", span, value)
    if isinstance(value, float) or (isinstance(value, Expr) and dtypes.is_float(value.dtype)):
        ev.problem("index-float", f"an index of {base.name} is a float; indices are integers (use // for division)", span or node)
        return unknown("index")
    if isinstance(value, Expr):
        return value
    if isinstance(value, (Buffer, Region)):
        name = value.name if isinstance(value, Buffer) else value.buffer.name
        ev.problem("buffer-arithmetic", f"{name} is a whole buffer; an index is one of its elements, such as {name}[0]", span or node)
    return unknown("index")


def _slice(ev: Evaluator, base: Buffer, items: list[Any], spans: list[Span | None], node: ast.Subscript) -> Region:
    mins: list[Expr] = []
    extents: list[Expr] = []
    for item, extent, span in zip(items, base.shape, spans):
        if isinstance(item, slice):
            low, size = _bounds(ev, base, item, extent, span, node)
        else:
            low, size = _index(ev, base, item, span, node), const(1)
        mins.append(low)
        extents.append(size)
    return Region(base, tuple(mins), tuple(extents), "slice", ev.span(node))


def _bounds(ev: Evaluator, base: Buffer, item: slice, extent: Expr, span: Span | None, node: ast.AST) -> tuple[Expr, Expr]:
    low = const(0) if item.start is None else _index(ev, base, item.start, span, node)
    high = extent if item.stop is None else _index(ev, base, item.stop, span, node)
    _check_slice(ev, base, item, const_int(low), const_int(high), span or ev.span(node))
    low, high = _from_end(low, extent), _from_end(high, extent)
    return low, difference(high, low)


def _check_slice(ev: Evaluator, base: Buffer, item: slice, low: int | None, high: int | None, span: Span) -> None:
    """TileLang takes the difference of the bounds for the extent, whatever their signs, and knows no steps."""
    if item.step is not None and item.step != 1 and not is_unknown(item.step):
        ev.problem("slice-form", f"a slice of {base.name} with a step: tiles are contiguous; loop over the elements instead", span)
    elif (low is not None and low < 0) != (high is not None and high < 0):
        ev.problem("slice-form", f"a bound of this slice of {base.name} counts from the end, which slices of buffers do not understand; write both "
                   "bounds from the start", span)


def _from_end(bound: Expr, extent: Expr) -> Expr:
    value = const_int(bound)
    return extent + value if value is not None and value < 0 else bound


def difference(high: Expr, low: Expr) -> Expr:
    """``high - low`` with the terms both have in common cancelled, so that ``i * 64 + 64 - i * 64`` is 64."""
    return affine.subtract(high, low)


def _index_region(ev: Evaluator, base: Region, index: Any, node: ast.Subscript) -> Any:
    items = list(index) if isinstance(index, tuple) else [index]
    if len(items) != len(base.mins) or any(isinstance(i, slice) for i in items):
        return unknown("item of a slice")
    indices = tuple(m + i if isinstance(i, (int, Expr)) else unknown("index") for m, i in zip(base.mins, items))
    return Load(base.buffer.dtype, ev.span(node), base.buffer, indices)


def store_element(ev: Evaluator, base: Buffer | Region, index: Any, value: Any, target: ast.Subscript, statement: ast.AST | None = None) -> None:
    """``buffer[index] = value``."""
    if ev.builder is None:
        return
    place = index_buffer(ev, base, index, target)
    span = ev.span(statement or target)
    if isinstance(place, (Region, Load)):
        stored.check_stored(ev, place, value, span)
    if isinstance(place, Region):
        from .slices import store_slice

        if not store_slice(ev, place, value, span):
            ev.builder.emit(TileOp(span, "unsupported", {"name": "slice assignment", "dst": place}))
        return
    if not isinstance(place, Load):
        buffer = base.buffer if isinstance(base, Region) else base
        ev.builder.emit(TileOp(span, "unsupported", {"name": "store", "dst": whole(buffer)}))
        return
    store(ev, place.buffer, place.indices, value, span)


def store(ev: Evaluator, buffer: Buffer, indices: tuple[Expr, ...], value: Any, span: Span) -> None:
    assert ev.builder is not None
    value = as_scalar(value)
    if dtypes.is_int(buffer.dtype):
        stored.check_narrowing(ev, buffer, value, span)
    if not isinstance(value, (Expr, int, float)):
        value = unknown("stored value")
    stored.check_literal(ev, buffer.dtype, value, span)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and buffer.dtype != dtypes.UNKNOWN:
        value = const(value, buffer.dtype if not (dtypes.is_int(buffer.dtype) and isinstance(value, float)) else "float32")
    ev.builder.emit(Store(span, buffer, indices, build.cast(value, _vector_type(buffer.dtype, indices))))


def to_region(value: Any, span: Span | None = None) -> Region | None:
    """The region a tile operator's argument stands for, or None."""
    if isinstance(value, Reference):
        return Region(value.buffer, value.indices, tuple(const(1) for _ in value.indices), "element", span)
    if isinstance(value, Buffer):
        return whole(value, span)
    if isinstance(value, Region):
        return value
    if isinstance(value, Load):
        return Region(value.buffer, value.indices, tuple(const(1) for _ in value.indices), "element", span or value.span)
    return None

from ...ir import affine  # noqa: E402  (they need the names above)
from . import stored  # noqa: E402  (they need the names above)
