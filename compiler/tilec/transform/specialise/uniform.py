"""Conditions of a tile's elements that hold for the whole tile, as masks mostly do: asked once, not for each element.

``for i, j in T.Parallel(M, N): s[i, j] = T.if_then_else(a(i, j) >= b(i, j), x, y)`` with an affine ``a - b`` holds everywhere if it holds
at the corner where ``a - b`` is least, which is the same question for all threads.
"""
from __future__ import annotations

import math
from dataclasses import replace

from ...analysis.bounds import Ranges
from ...analysis.divergence import Divergence
from ...ir.affine import linear, subtract
from ...ir.buffer import FRAGMENT, whole
from ...ir.build import binary, const, const_int, const_value
from ...ir.expr import Binary, Expr, Load, Select, Unary, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Body, For, If, Launch, Let, Parallel, Stmt, Store, TileOp
from ..rewrite import map_children

_TURNED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


class UniformConditions:
    def __init__(self, s: Launch, thread_vars: tuple[Var, ...]) -> None:
        self.ranges = Ranges()
        for var, extent in zip(s.block_vars, s.grid):
            self.ranges.set_extent(var, extent)
        self.divergence = Divergence(s.body, thread_vars)

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, For):
                self.ranges.set_extent(s.var, s.extent, s.start, s.step)
            if isinstance(s, Let):
                self.ranges.set_value(s.var, s.value)
            out.append(self._parallel(s) if isinstance(s, Parallel) else map_children(s, self.body))
        return tuple(out)

    def _parallel(self, s: Parallel) -> Stmt:
        if len(s.body) != 1 or not isinstance(s.body[0], Store) or s.body[0].buffer.scope != FRAGMENT:
            return s
        store = s.body[0]
        if not isinstance(store.value, Select) or any(const_int(e) is None for e in s.extents):
            return s
        asked: Stmt | None = None
        for cond, value in ((store.value.cond, store.value.then), (_opposite(store.value.cond), store.value.other)):
            everywhere = self._everywhere(cond, s) if cond is not None and const_value(value) is not None else None
            if everywhere is None:
                continue
            plain = _filled(replace(s, body=(replace(store, value=value),)), value)
            if const_value(everywhere) is True or self._proven(everywhere):
                return plain
            # A mask of infinities is hardly ever whole: such a tile would have been left out.
            if not self.divergence.differs(everywhere) and math.isfinite(const_value(value) or 0):
                asked = asked or If(s.span, everywhere, (plain,), (s,))
        return asked or s

    def _everywhere(self, cond: Expr, s: Parallel) -> Expr | None:
        """The condition at the corner where it is hardest to meet; None if that is not known."""
        if not isinstance(cond, Binary):
            return None
        if cond.op == "and":
            a, b = self._everywhere(cond.a, s), self._everywhere(cond.b, s)
            return None if a is None or b is None else binary("and", a, b)
        if cond.op not in _TURNED or not cond.a.dtype.startswith("int"):
            return None
        if any(isinstance(x, Load) for x in walk_expr(cond)):
            return None
        low, high = (cond.b, cond.a) if cond.op in ("ge", "gt") else (cond.a, cond.b)
        terms, least = linear(subtract(high, low))
        rest: Expr = const(0, cond.a.dtype)
        for term, factor in terms:
            if term in s.vars:
                extent = const_int(s.extents[s.vars.index(term)]) or 1  # type: ignore[arg-type]
                least += min(0, factor * (extent - 1))
            elif any(x in s.vars for x in walk_expr(term)):
                return None
            else:
                rest = rest + term * factor
        return binary(cond.op if cond.op in ("ge", "gt") else {"le": "ge", "lt": "gt"}[cond.op], rest + least, const(0, cond.a.dtype))

    def _proven(self, cond: Expr) -> bool:
        if not isinstance(cond, Binary) or cond.op not in ("ge", "gt"):
            return False
        low, _ = self.ranges.bounds(cond.a)
        return low is not None and low >= (0 if cond.op == "ge" else 1)


def _opposite(cond: Expr) -> Expr | None:
    if isinstance(cond, Unary) and cond.op == "not":
        return cond.a
    return Binary(cond.dtype, cond.span, _TURNED[cond.op], cond.a, cond.b) if isinstance(cond, Binary) and cond.op in _TURNED else None


def _filled(s: Parallel, value: Expr) -> Stmt:
    """A loop that gives every element of a fragment one value, as a fill."""
    store = s.body[0]
    assert isinstance(store, Store)
    complete = store.indices == s.vars and [const_int(e) for e in s.extents] == list(store.buffer.static_shape() or ())
    return TileOp(s.span, "fill", {"dst": whole(store.buffer, s.span), "value": value}) if complete and store.buffer.view_of is None else s
