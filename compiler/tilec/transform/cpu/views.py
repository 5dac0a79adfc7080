"""Views in a program of loops: each access to one becomes an access to the storage it shares."""
from __future__ import annotations

from dataclasses import replace

from ...ir import dtypes
from ...ir.buffer import Buffer
from ...ir.build import call, cast, const, unary
from ...ir.expr import Call, Expr, Load, Var
from ...ir.stmt import Alloc, Body, Let, Stmt, Store, walk
from ...records import dataclass
from ...source.span import Span
from ..errors import LoweringError
from ..legalize import flat_index, unflatten
from ..rewrite import map_children, map_expr, map_own


def resolve_views(body: Body) -> Body:
    """A view of another type reads and writes the bits of its storage. Where a view's elements are of another size, the storage
    becomes an array of whole numbers of the smallest size there is (``_cells``), and larger elements lie in several of them."""
    views = [s for s in walk(body) if isinstance(s, Alloc) and s.buffer.view_of is not None]
    for s in views:
        _check(s)
    return _Resolved(_cells(body, views)).body(body)


def _cells(body: Body, views: list[Alloc]) -> dict[Buffer, Buffer]:
    """What stands in for the storages that the kernel allocates and that are viewed in elements of several sizes."""
    sizes: dict[Buffer, set[int]] = {}
    for view in (s.buffer for s in views):
        sizes.setdefault(view.storage(), {dtypes.bits(view.storage().dtype)}).add(dtypes.bits(view.dtype))
    made = {}
    for s in walk(body):
        bits = sizes.get(s.buffer, ()) if isinstance(s, Alloc) else ()
        if isinstance(s, Alloc) and len(bits) > 1 and (total := s.buffer.size_bytes()) is not None:
            unit = max(min(bits), 8)
            made[s.buffer] = replace(s.buffer, shape=(const(total * 8 // unit),), dtype=f"uint{unit}")
    return made


@dataclass
class _Resolved:
    cells: dict[Buffer, Buffer]

    def body(self, statements: Body) -> Body:
        out: list[Stmt] = []
        for s in statements:
            if isinstance(s, Alloc) and s.buffer.view_of is not None:
                continue
            s = map_children(map_own(s, self._load), self.body)
            if isinstance(s, Alloc) and s.buffer in self.cells:
                s = replace(s, buffer=self.cells[s.buffer])
            out += self._stored(s) if isinstance(s, Store) and self._moved(s.buffer) else (s,)
        return tuple(out)

    def _moved(self, buffer: Buffer) -> bool:
        return buffer.view_of is not None or buffer in self.cells

    def _load(self, e: Expr) -> Expr | None:
        if isinstance(e, Call) and e.op == "address_of" and isinstance(e.args[0], Load) and self._of_another_size(e.args[0].buffer):
            raise LoweringError(f"{e.args[0].buffer.name} is a view of elements of another size; its address cannot be taken on the CPU", e.span, "cpu-view")
        if not isinstance(e, Load) or not self._moved(e.buffer):
            return None
        indices = tuple(map_expr(i, self._load) for i in e.indices)
        buffer, flat = self._place(e.buffer, indices)
        own, unit = dtypes.bits(e.buffer.dtype), dtypes.bits(buffer.dtype)
        if own == unit:
            return _as(e.buffer.dtype, _element(buffer, flat, e.span), e.span)
        if own > unit:
            return _as(e.buffer.dtype, _joined([_element(buffer, flat * (own // unit) + k, e.span) for k in range(own // unit)], own), e.span)
        part = cast(_bits(_element(buffer, flat // (unit // own), e.span)) >> _shift(flat, own, unit), f"uint{own}")
        return _as(e.buffer.dtype, part, e.span)

    def _of_another_size(self, buffer: Buffer) -> bool:
        return self._moved(buffer) and dtypes.bits(buffer.dtype) != dtypes.bits(self.cells.get(buffer.storage(), buffer.storage()).dtype)

    def _stored(self, s: Store) -> tuple[Stmt, ...]:
        buffer, flat = self._place(s.buffer, s.indices)
        own, unit = dtypes.bits(s.buffer.dtype), dtypes.bits(buffer.dtype)
        if own == unit:
            return (replace(s, buffer=buffer, indices=unflatten(flat, buffer.shape), value=_as(buffer.dtype, s.value, s.span)),)
        if own < unit:  # the other parts of the element stay
            at, shift = flat // (unit // own), _shift(flat, own, unit)
            mask = const(2 ** own - 1, f"uint{unit}") << shift
            kept = _bits(_element(buffer, at, s.span)) & unary("bitnot", mask)
            value = kept | (cast(_bits(s.value), f"uint{unit}") << shift)
            return (replace(s, buffer=buffer, indices=unflatten(at, buffer.shape), value=_as(buffer.dtype, value, s.span)),)
        # The place and the value are worked out before the first part is stored: both may be read from what is stored to.
        value, at = Var(f"uint{own}", s.span, "bits"), Var("int32", s.span, "place")
        parts = (replace(s, buffer=buffer, indices=unflatten(at * (own // unit) + k, buffer.shape),
                         value=_as(buffer.dtype, cast(value >> const(k * unit, f"uint{own}"), f"uint{unit}"), s.span)) for k in range(own // unit))
        return (Let(s.span, value, _bits(s.value)), Let(s.span, at, cast(flat, "int32")), *parts)

    def _place(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, Expr]:
        """What holds the element, and the element's number there, counted in elements of ``buffer``'s own type."""
        own, flat = dtypes.bits(buffer.dtype), flat_index(buffer, indices)
        while buffer.view_of is not None:
            buffer = buffer.view_of
            if buffer.offset is not None:
                flat = flat + _counted(buffer.offset, dtypes.bits(buffer.dtype), own)
        return self.cells.get(buffer, buffer), flat


def _counted(offset: Expr, bits: int, own: int) -> Expr:
    return offset * (bits // own) if bits >= own else offset // (own // bits)


def _check(s: Alloc) -> None:
    if s.buffer.strides is not None:
        raise LoweringError(f"Views with strides of their own ({s.buffer.name}) cannot be compiled yet; index {s.buffer.storage().name} instead.", s.span,
                            "unsupported")
    own, storage = s.buffer.dtype, s.buffer.storage().dtype
    if own != storage and "bool" in (own, storage):
        raise LoweringError(f"{s.buffer.name} views {storage} elements as {own}; that runs on a GPU only (choose a CUDA target)", s.span, "cpu-view")


def _element(buffer: Buffer, flat: Expr, span: Span | None) -> Load:
    return Load(buffer.dtype, span, buffer, unflatten(flat, buffer.shape))


def _joined(parts: list[Load], bits: int) -> Expr:
    """Several elements as one number, the first one lowest."""
    unit = dtypes.bits(parts[0].dtype)
    whole = cast(_bits(parts[0]), f"uint{bits}")
    for k, part in enumerate(parts[1:], 1):
        whole = whole | (cast(_bits(part), f"uint{bits}") << const(k * unit, f"uint{bits}"))
    return whole


def _shift(flat: Expr, own: int, unit: int) -> Expr:
    return cast(flat % (unit // own) * own, f"uint{unit}")


def _bits(value: Expr) -> Expr:
    return _as(f"uint{dtypes.bits(value.dtype)}", value, value.span)


def _as(dtype: str, value: Expr, span: Span | None) -> Expr:
    return value if value.dtype == dtype else call("reinterpret", (value,), dtype, span)
