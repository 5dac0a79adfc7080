"""The innermost iterations of a parallel loop as wide memory accesses and asynchronous copies.

Wide accesses move data unchanged, between memory and memory or memory and a small register array; arithmetic stays per element.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..analysis.layout import REGISTER, Digit, FragmentLayout
from ..ir import dtypes
from ..ir.affine import linear
from ..ir.buffer import FRAGMENT, GLOBAL, Buffer, Region
from ..ir.build import const, const_int
from ..ir.expr import Binary, Call, Expr, Load, Select, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, For, If, Parallel, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .async_copy import async_copy_bytes, async_copy_statement
from .atomics import adds_at_once, adds_fewer_at_once, wide_add
from .context import LaunchState
from .guard import conjuncts
from .rewrite import map_expr, substitute
from .sizes import is_multiple

if TYPE_CHECKING:
    from .parallel import LoopLowering


@dataclass(frozen=True)
class Lanes:
    """``width`` neighbouring values of the loop's last variable ``last``; ``var`` counts them."""

    digit: Digit
    width: int
    var: Var
    last: Var
    asynchronous: bool = False


def choose_lanes(s: Parallel, layout: FragmentLayout, body: Body, state: LaunchState) -> Lanes | None:
    """The vector of a loop: as wide as 16 bytes of its widest contiguous access allow."""
    if not s.vars:
        return None
    dim = len(s.vars) - 1
    digit = next((d for d in layout.digits if d.dim == dim and d.axis == REGISTER and d.stride == 1), None)
    if digit is None:
        return None
    var = Var("int32", None, "lane", "loop")
    width = 16
    while width > 1:
        lanes = Lanes(digit, width, var, s.vars[-1])
        if digit.extent % width == 0 and layout.shape[dim] % width == 0 and not _adds_fewer(body, width, state):
            accesses = [*_memory_accesses(body), *((r.buffer, r.mins) for r in _atomic_places(body, width, state))]
            sizes = [dtypes.bits(b.dtype) // 8 for b, indices in accesses if is_contiguous(b, indices, lanes, state)]
            if sizes and max(sizes) * width <= 16:
                return Lanes(digit, width, var, s.vars[-1], _asynchronous(s, body, lanes, state))
        width //= 2
    if s.attrs.get("asynchronous") and layout.shape[dim] > 0:
        lanes = Lanes(digit, 1, var, s.vars[-1])
        if _asynchronous(s, body, lanes, state):
            return Lanes(digit, 1, var, s.vars[-1], True)
    return None


def _asynchronous(s: Parallel, body: Body, lanes: Lanes, state: LaunchState) -> bool:
    whole = all(dtypes.bits(b.dtype) >= 8 for b, _ in _memory_accesses(body))
    return bool(s.attrs.get("asynchronous")) and whole and async_source(body, lanes, state) is not None


def async_source(body: Body, lanes: Lanes, state: LaunchState) -> tuple[Store, Load, Expr | None] | None:
    """The store, load and condition of a loop that cp.async can run; None if it cannot."""
    if state.target.sm < 80 or len(body) != 1 or not isinstance(body[0], Store):
        return None
    store = body[0]
    load: Expr = store.value
    condition: Expr | None = None
    if isinstance(load, Select):
        if const_int(load.other) != 0 and getattr(load.other, "value", None) != 0.0:
            return None
        condition = load.cond
        load = load.then
    if not isinstance(load, Load) or load.buffer.scope != GLOBAL or not store.buffer.is_shared() or load.dtype != store.buffer.dtype:
        return None
    size = dtypes.bits(load.dtype) // 8 * lanes.width
    if not async_copy_bytes(size) or (condition is not None and not is_uniform(condition, lanes)):
        return None
    if lanes.width > 1 and not (is_contiguous(store.buffer, store.indices, lanes, state) and is_contiguous(load.buffer, load.indices, lanes, state)):
        return None
    return store, load, condition


def _memory_accesses(body: Body) -> list[tuple[Buffer, tuple[Expr, ...]]]:
    found: list[tuple[Buffer, tuple[Expr, ...]]] = []
    for s in walk_statements(body):
        if isinstance(s, Store):
            found.append((s.buffer, s.indices))
        for e in expressions(s):
            found += [(x.buffer, x.indices) for x in walk_expr(e) if isinstance(x, Load)]
    return [(b, i) for b, i in found if b.scope == GLOBAL or b.is_shared()]


def _atomic_places(body: Body, width: int, state: LaunchState) -> list[Region]:
    """Where neighbours can be added to with one instruction."""
    found = [s for s in walk_statements(body) if isinstance(s, TileOp) and s.op == "atomic" and adds_at_once(s, width, state.target)]
    return [s.region("dst") for s in found]


def _adds_fewer(body: Body, width: int, state: LaunchState) -> bool:
    return any(isinstance(s, TileOp) and s.op == "atomic" and adds_fewer_at_once(s, width, state.target) for s in walk_statements(body))


def uses(e: Expr, var: Var) -> bool:
    return any(x is var for x in walk_expr(e))


def _aligned(e: Expr, lanes: Lanes) -> bool:
    """Whether the expression is a multiple of the width plus the last variable, once."""
    terms, total = linear(e)
    seen = False
    if total % lanes.width:
        return False
    for term, factor in terms:
        if term is lanes.last:
            if factor != 1 or seen:
                return False
            seen = True
        elif uses(term, lanes.last) or not (factor % lanes.width == 0 or is_multiple(term * factor, lanes.width)):
            return False
    return seen


def is_contiguous(b: Buffer, indices: tuple[Expr, ...], lanes: Lanes, state: LaunchState) -> bool:
    """Whether the lanes access neighbours, the first of them aligned to the whole vector."""
    if not indices or dtypes.bits(b.dtype) < 8 or dtypes.bits(b.dtype) * lanes.width > 128:
        return False
    if any(uses(i, lanes.last) for i in indices[:-1]) or not _aligned(indices[-1], lanes):
        return False
    if b.strides is not None:
        return const_int(b.strides[-1]) == 1 and all(is_multiple(x, lanes.width) for x in b.strides[:-1])
    if b.offset is not None:
        return False
    return b.ndim == 1 or is_multiple(b.shape[-1], lanes.width)


def is_uniform(cond: Expr, lanes: Lanes) -> bool:
    """Whether all lanes agree on a condition: bounds that are multiples of the width, met by aligned indices."""
    for part in conjuncts(cond):
        if not uses(part, lanes.last):
            continue
        if not isinstance(part, Binary) or part.op not in ("lt", "ge") or uses(part.b, lanes.last):
            return False
        if not (is_multiple(part.b, lanes.width) and _aligned(part.a, lanes)):
            return False
    return True


# -- code --------------------------------------------------------------------------------------------------------------------------
class _NotVectorisable(Exception):
    pass


def vectorised(body: Body, values: dict[Var, Expr], lanes: Lanes, loop: LoopLowering) -> Body | None:
    """The body for all lanes; None if it must be run lane by lane."""
    if lanes.asynchronous:
        found = async_source(body, lanes, loop.state)
        assert found is not None
        return _async(found, values, lanes, loop)
    if not _independent(body):
        return None
    try:
        return Vectoriser(values, lanes, loop).body(body)
    except _NotVectorisable:
        return None


def _independent(body: Body) -> bool:
    """Reading ahead of the stores must not change what is read: no buffer is both stored to and loaded by several statements."""
    stores = [s.buffer.storage() for s in walk_statements(body) if isinstance(s, Store)]
    if len(stores) == 1:
        return True
    loads = {x.buffer.storage() for s in walk_statements(body) for e in expressions(s) for x in walk_expr(e)
             if isinstance(x, Load) and x.buffer.scope != FRAGMENT}
    return not any(b in loads for b in stores)


def _async(found: tuple[Store, Load, Expr | None], values: dict[Var, Expr], lanes: Lanes, loop: LoopLowering) -> Body:
    store, load, condition = found
    first = _first_lane(values, lanes)
    target = loop.state.shared_element(store.buffer, tuple(loop.expression(i, first) for i in store.indices))
    source = (load.buffer, tuple(loop.expression(i, first) for i in load.indices))
    guard = None if condition is None else loop.expression(condition, first)
    size = dtypes.bits(load.dtype) // 8 * lanes.width
    return loop.once((async_copy_statement(target, source, size, guard, store.span),), store.span)


def _first_lane(values: dict[Var, Expr], lanes: Lanes) -> dict[Var, Expr]:
    return {v: substitute(e, {lanes.var: const(0)}) for v, e in values.items()}


class Vectoriser:
    def __init__(self, values: dict[Var, Expr], lanes: Lanes, loop: LoopLowering) -> None:
        self.values, self.lanes, self.loop = values, lanes, loop
        self.first = _first_lane(values, lanes)

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Store):
                out += self.store(s)
            elif isinstance(s, TileOp) and s.op == "atomic":
                out += self.atomic(s)
            elif isinstance(s, If):
                if not is_uniform(s.cond, self.lanes):
                    raise _NotVectorisable
                cond = self.loop.expression(s.cond, self.first)
                out.append(If(s.span, cond, self.body(s.then), self.body(s.other)))
            else:
                raise _NotVectorisable
        return tuple(out)

    def store(self, s: Store) -> Body:
        if s.buffer.scope in ("local", "local.var"):
            raise _NotVectorisable
        wide = self._wide(s.buffer, s.indices)
        direct = self._plain_copy(s) if wide else None
        if direct is not None:
            return self.loop.once(direct, s.span)
        out: list[Stmt] = []
        loaded: dict[Var, Expr] = {}
        value = map_expr(s.value, lambda e: self._hoist(e, out, loaded, s))
        lowered = self.loop.expression(value, {**self.values, **loaded})
        if wide:
            result = self.loop.state.temporary_local("result", self.lanes.width, s.buffer.dtype, s.span)
            out.append(Alloc(s.span, result))
            out.append(self._lanes(Store(s.span, result, (self.lanes.var,), lowered), "unroll"))
            target, place = self._address(s.buffer, s.indices)
            write = self._lanes(Store(s.span, target, place, Load(result.dtype, None, result, (self.lanes.var,))), "vectorized")
            return (*out, *self.loop.once((write,), s.span))
        stored = self.loop.store(s, s.indices, lowered, self.values)
        return (*out, *(self._lanes(x, "unroll") for x in stored))

    def atomic(self, s: TileOp) -> Body:
        dst = s.region("dst")
        if not adds_at_once(s, self.lanes.width, self.loop.state.target) or not self._wide(dst.buffer, dst.mins):
            raise _NotVectorisable
        out: list[Stmt] = []
        loaded: dict[Var, Expr] = {}
        value = map_expr(s.args["value"], lambda e: self._hoist(e, out, loaded, s))
        added = self.loop.state.temporary_local("added", self.lanes.width, dst.dtype, s.span)
        out.append(Alloc(s.span, added))
        out.append(self._lanes(Store(s.span, added, (self.lanes.var,), self.loop.expression(value, {**self.values, **loaded})), "unroll"))
        buffer, place = self.loop.state.shared_element(dst.buffer, tuple(self.loop.expression(i, self.first) for i in dst.mins))
        return (*out, *self.loop.once((wide_add(s, buffer, place, added, self.lanes.width),), s.span))

    def _wide(self, b: Buffer, indices: tuple[Expr, ...]) -> bool:
        return b.scope != FRAGMENT and is_contiguous(b, indices, self.lanes, self.loop.state)

    def _plain_copy(self, s: Store) -> Body | None:
        """Memory to memory, unchanged."""
        load: Expr = s.value
        other: Expr | None = None
        cond: Expr | None = None
        if isinstance(load, Select) and is_uniform(load.cond, self.lanes) and not uses(load.other, self.lanes.last):
            other, cond = load.other, load.cond
            load = load.then
        if not isinstance(load, Load) or load.dtype != s.buffer.dtype or not self._wide(load.buffer, load.indices):
            return None
        source, place = self._address(load.buffer, load.indices)
        target, where = self._address(s.buffer, s.indices)
        copy = self._lanes(Store(s.span, target, where, Load(load.dtype, None, source, place)), "vectorized")
        if cond is None or other is None:
            return (copy,)
        fill = self._lanes(Store(s.span, target, where, self.loop.expression(other, self.first)), "vectorized")
        return (If(s.span, self.loop.expression(cond, self.first), (copy,), (fill,)),)

    def _hoist(self, e: Expr, out: list[Stmt], loaded: dict[Var, Expr], s: Store | TileOp) -> Expr | None:
        """A load that is wide moves in front of the lanes; the variable that replaces it stands for its lane."""
        if isinstance(e, Call) and (e.op == "address_of" or e.op.startswith("atomic_")):
            raise _NotVectorisable
        if isinstance(e, Load) and self._wide(e.buffer, e.indices):
            return self._read(e, None, None, out, loaded, s)
        if isinstance(e, Select):
            inner = e.then
            if (isinstance(inner, Load) and self._wide(inner.buffer, inner.indices) and is_uniform(e.cond, self.lanes)
                    and not any(isinstance(x, Load) for x in walk_expr(e.other)) and not uses(e.other, self.lanes.last)):
                return self._read(inner, e.cond, e.other, out, loaded, s)
            return e
        return None

    def _read(self, load: Load, cond: Expr | None, other: Expr | None, out: list[Stmt], loaded: dict[Var, Expr], s: Store | TileOp) -> Var:
        array = self.loop.state.temporary_local("loaded", self.lanes.width, load.dtype, s.span)
        source, place = self._address(load.buffer, load.indices)
        read = self._lanes(Store(s.span, array, (self.lanes.var,), Load(load.dtype, None, source, place)), "vectorized")
        out.append(Alloc(s.span, array))
        if cond is None or other is None:
            out.append(read)
        else:
            fill = self._lanes(Store(s.span, array, (self.lanes.var,), self.loop.expression(other, self.first)), "unroll")
            out.append(If(s.span, self.loop.expression(cond, self.first), (read,), (fill,)))
        name = Var(load.dtype, None, array.name, "let")
        loaded[name] = Load(load.dtype, None, array, (self.lanes.var,))
        return name

    def _address(self, b: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        """The place of the first lane, plus the lane."""
        first = tuple(self.loop.expression(i, self.first) for i in indices)
        buffer, place = self.loop.state.shared_element(b, first)
        return buffer, (*place[:-1], place[-1] + self.lanes.var)

    def _lanes(self, s: Stmt, kind: str) -> For:
        return For(s.span, self.lanes.var, const(0), const(self.lanes.width), (s,), kind)
