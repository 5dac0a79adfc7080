"""Views in a program of loops: each access to one becomes an access to the storage it shares."""
from __future__ import annotations

from dataclasses import replace

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import call
from ...ir.expr import Expr, Load
from ...ir.stmt import Alloc, Body, Stmt, Store
from ...source.span import Span
from ..errors import LoweringError
from ..legalize import flat_index, unflatten
from ..rewrite import map_children, map_expr, map_own


def resolve_views(body: Body) -> Body:
    """A view of another type reads and writes the bits of its storage's elements, which must be of the same size."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc) and s.buffer.view_of is not None:
            _check(s)
            continue
        s = map_children(map_own(s, _load), resolve_views)
        if isinstance(s, Store) and s.buffer.view_of is not None:
            buffer, indices = _in_storage(s.buffer, s.indices)
            s = replace(s, buffer=buffer, indices=indices, value=_as(buffer.dtype, s.value, s.span))
        out.append(s)
    return tuple(out)


def _check(s: Alloc) -> None:
    if s.buffer.strides is not None:
        raise LoweringError(f"Views with strides of their own ({s.buffer.name}) cannot be compiled yet; index {s.buffer.storage().name} instead.", s.span,
                            "unsupported")
    own, storage = s.buffer.dtype, s.buffer.storage().dtype
    whole_bytes = all(t != "bool" and dtypes.bits(t) >= 8 for t in (own, storage))
    if own != storage and (not whole_bytes or dtypes.bits(own) != dtypes.bits(storage)):
        raise LoweringError(f"{s.buffer.name} views {storage} elements as {own}, a type of another size; that runs on a GPU only "
                            "(choose a CUDA target)", s.span, "cpu-view")


def _load(e: Expr) -> Expr | None:
    if not isinstance(e, Load) or e.buffer.view_of is None:
        return None
    buffer, indices = _in_storage(e.buffer, tuple(map_expr(i, _load) for i in e.indices))
    return _as(e.buffer.dtype, Load(buffer.dtype, e.span, buffer, indices), e.span)


def _in_storage(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
    while buffer.view_of is not None:
        flat = flat_index(buffer, indices)
        buffer = buffer.view_of
        indices = unflatten(flat, buffer.shape)
    return buffer, indices


def _as(dtype: str, value: Expr, span: Span | None) -> Expr:
    return value if value.dtype == dtype else call("reinterpret", (value,), dtype, span)
