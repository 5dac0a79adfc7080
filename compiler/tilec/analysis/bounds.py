"""Ranges of integer expressions, for proving that an access stays inside its buffer."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..ir.affine import linear
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Unknown, Var, equal

Range = tuple[int | None, int | None]  # inclusive bounds; None: not bounded on that side


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq"}
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}


class Ranges:
    """What is known about variables: inclusive bounds, or values they stand for (``let``)."""

    def __init__(self) -> None:
        self._bounds: dict[Var, Range] = {}
        self._symbolic: dict[Var, Expr] = {}  # variable < this expression
        self._values: dict[Var, Expr] = {}

    def copy(self) -> Ranges:
        other = Ranges()
        other._bounds = dict(self._bounds)
        other._symbolic = dict(self._symbolic)
        other._values = dict(self._values)
        return other

    def set_extent(self, var: Var, extent: Expr, start: Expr | None = None, step: int = 1) -> None:
        """``var`` runs over ``start + step * [0, extent)``."""
        low, _ = self.bounds(start) if start is not None else (0, 0)
        _, high_start = self.bounds(start) if start is not None else (0, 0)
        _, count = self.bounds(extent)
        if step > 0:
            top = None if count is None or high_start is None else high_start + step * (count - 1)
            self._bounds[var] = (low, top)
        else:
            bottom = None if count is None or low is None else low + step * (count - 1)
            self._bounds[var] = (bottom, high_start)
        if step == 1 and (start is None or const_int(start) == 0):
            self._symbolic[var] = extent

    def set_value(self, var: Var, value: Expr) -> None:
        self._values[var] = value

    def set_bounds(self, var: Var, low: int | None, high: int | None) -> None:
        self._bounds[var] = (low, high)

    def assume_less(self, var: Var, limit: Expr) -> None:
        """From here on ``var < limit`` holds."""
        low, high = self.bounds(var)
        _, top = self.bounds(limit)
        self._values.pop(var, None)
        self._bounds[var] = (low, _min_known(high, None if top is None else top - 1))
        self._symbolic[var] = limit

    def assume(self, cond: Expr) -> None:
        """From here on a condition holds. Only comparisons of a variable with something else tell about ranges."""
        if isinstance(cond, Binary) and cond.op == "and":
            self.assume(cond.a)
            self.assume(cond.b)
            return
        if isinstance(cond, Unary) and cond.op == "not" and isinstance(cond.a, Binary) and cond.a.op in _OPPOSITE:
            cond = Binary("bool", cond.span, _OPPOSITE[cond.a.op], cond.a.a, cond.a.b)
        if not isinstance(cond, Binary) or cond.op not in _MIRRORED:
            return
        for var, op, limit in ((cond.a, cond.op, cond.b), (cond.b, _MIRRORED[cond.op], cond.a)):
            if isinstance(var, Var) and var not in self._values and not isinstance(limit, Unknown):
                self._assume_side(var, op, limit)

    def _assume_side(self, var: Var, op: str, limit: Expr) -> None:
        low, high = self.bounds(var)
        bottom, top = self.bounds(limit)
        if op in ("lt", "le", "eq") and top is not None:
            high = _min_known(high, top - (op == "lt"))
        if op in ("gt", "ge", "eq") and bottom is not None:
            low = _max_known(low, bottom + (op == "gt"))
        self._bounds[var] = (low, high)

    @contextmanager
    def under(self, cond: Expr) -> Iterator[None]:
        """For as long as a condition holds; what is learnt inside is forgotten."""
        saved = self.copy()
        self.assume(cond)
        try:
            yield
        finally:
            self._bounds, self._symbolic, self._values = saved._bounds, saved._symbolic, saved._values

    # -- numbers -------------------------------------------------------------------------------------------------
    def bounds(self, e: Expr | int) -> Range:
        """Inclusive bounds of an integer expression."""
        if isinstance(e, int):
            return e, e
        if isinstance(e, Const):
            value = const_int(e)
            return (value, value) if value is not None else (None, None)
        if isinstance(e, Var):
            return self._var(e)
        if isinstance(e, Cast):
            return self.bounds(e.a)
        if isinstance(e, Select):
            return _union(self.bounds(e.then), self.bounds(e.other))
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call):
            return (e.attrs or {}).get("range", (None, None))
        return None, None

    def _var(self, v: Var) -> Range:
        if v in self._values:
            return self.bounds(self._values[v])
        if v in self._bounds:
            return self._bounds[v]
        if v.kind in ("dynamic", "const"):
            return 1, None  # extents of tensors
        if v.kind in ("block", "thread", "loop"):
            return 0, None
        return None, None

    def _binary(self, e: Binary) -> Range:
        if e.op in ("add", "sub", "mul"):
            return self._linear(e)
        a, b = self.bounds(e.a), self.bounds(e.b)
        truncating = e.op in ("truncdiv", "truncmod") and a[0] is not None and a[0] >= 0  # as floor, where nothing is negative
        if e.op == "floordiv" or (truncating and e.op == "truncdiv"):
            return _floordiv(a, b)
        if e.op == "floormod" or truncating:
            if b[0] is not None and b[0] > 0 and b[1] is not None:
                if a[0] is not None and a[0] >= 0 and a[1] is not None and a[1] < b[0]:
                    return a
                return 0, b[1] - 1
            return None, None
        if e.op == "min":
            return (_low(a[0], b[0]), _min_known(a[1], b[1]))
        if e.op == "max":
            return (_max_known(a[0], b[0]), _high(a[1], b[1]))
        if e.op == "bitand" and b[0] is not None and b[0] >= 0:
            return 0, b[1]
        if e.op == "shr" and a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] == b[1]:
            return a[0] >> b[0], None if a[1] is None else a[1] >> b[0]
        if e.op == "shl" and b[0] is not None and b[0] == b[1] and 0 <= b[0] < 32:
            return _scale(a, 1 << b[0])
        if e.op in ("bitxor", "bitor") and None not in (*a, *b) and a[0] >= 0 and b[0] >= 0:  # type: ignore[operator]
            return 0, (1 << max(a[1], b[1]).bit_length()) - 1  # type: ignore[type-var, union-attr]
        return None, None

    def _linear(self, e: Binary) -> Range:
        terms, total = linear(e)
        low: int | None = total
        high: int | None = total
        for term, factor in terms:
            bounds = self._product(term) if isinstance(term, Binary) and term.op in ("add", "sub", "mul") else self.bounds(term)
            part = _scale(bounds, factor)
            low = None if low is None or part[0] is None else low + part[0]
            high = None if high is None or part[1] is None else high + part[1]
        return low, high

    def _product(self, e: Binary) -> Range:
        if e.op != "mul":
            return None, None
        a, b = self.bounds(e.a), self.bounds(e.b)
        if None not in (*a, *b):
            corners = [x * y for x in a for y in b]  # type: ignore[operator]
            return min(corners), max(corners)
        if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
            return a[0] * b[0], None
        return None, None

    # -- proofs --------------------------------------------------------------------------------------------------
    def proves_nonnegative(self, e: Expr) -> bool:
        low, _ = self.bounds(e)
        return low is not None and low >= 0

    def proves_less(self, e: Expr, limit: Expr) -> bool:
        """Whether ``e < limit`` always holds."""
        if isinstance(e, Unknown) or isinstance(limit, Unknown):
            return False
        from ..ir.affine import subtract

        if isinstance(e, Var) and e in self._symbolic and equal(self._symbolic[e], limit):
            return True
        low, _ = self.bounds(subtract(limit, self._replace_top(e)))
        return low is not None and low >= 1

    def _replace_top(self, e: Expr) -> Expr:
        """Variables bounded by a symbolic extent take their largest value, where the expression grows with them."""
        terms, _ = linear(e)
        result = e
        for term, factor in terms:
            if isinstance(term, Var) and factor > 0 and term in self._symbolic and self._bounds.get(term, (None, None))[1] is None:
                result = result + (self._symbolic[term] - 1 - term) * factor
        return result


def _scale(r: Range, factor: int) -> Range:
    low = None if r[0] is None else r[0] * factor
    high = None if r[1] is None else r[1] * factor
    return (low, high) if factor >= 0 else (high, low)


def _floordiv(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] <= 0:
        return None, None
    divisors = [b[0]] if b[1] is None else [b[0], b[1]]
    low = None if a[0] is None else min(a[0] // d for d in divisors)
    high = None if a[1] is None else max(a[1] // d for d in divisors)
    if b[1] is None and low is not None:
        low = min(low, 0 if a[0] is not None and a[0] >= 0 else -1)
    return low, high


def _union(a: Range, b: Range) -> Range:
    return _low(a[0], b[0]), _high(a[1], b[1])


def _low(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else min(x, y)


def _high(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else max(x, y)


def _min_known(x: int | None, y: int | None) -> int | None:
    return y if x is None else x if y is None else min(x, y)


def _max_known(x: int | None, y: int | None) -> int | None:
    return y if x is None else x if y is None else max(x, y)
