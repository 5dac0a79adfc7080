"""Index expressions as sums of weighted digits of loop variables, to compare where a loop runs with where data is."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from ..ir.affine import linear
from ..ir.build import const_int
from ..ir.expr import Binary, Expr, Var
from ..ir.expr import walk as walk_expr
from ..records import dataclass
from .bounds import Ranges
from .layout import THREAD, Digit, FragmentLayout


@dataclass(repr=False)
class Part:
    """``weight * ((digit // below) % extent)``, where ``digit`` is a digit of the loop's layout; or, without one, an opaque
    term of value 0 .. extent - 1."""

    weight: int
    extent: int
    digit: Digit | None
    below: int = 1
    term: Expr | None = None

    @property
    def is_thread(self) -> bool:
        return self.digit is not None and self.digit.axis == THREAD

    @property
    def scale(self) -> int:
        """Weight of this part's value in the thread or register number of the loop."""
        assert self.digit is not None
        return self.digit.scale * self.below


@dataclass(repr=False)
class DigitSum:
    parts: tuple[Part, ...]
    constant: int = 0
    _digits: dict[tuple[int, int | None], DigitSum | None] | None = field(default=None, init=False, compare=False)

    @property
    def largest(self) -> int:
        return self.constant + sum(p.weight * (p.extent - 1) for p in self.parts)

    def times(self, factor: int) -> DigitSum:
        return DigitSum(tuple(Part(p.weight * factor, p.extent, p.digit, p.below, p.term) for p in self.parts), self.constant * factor)

    def __add__(self, other: DigitSum) -> DigitSum:
        return DigitSum(self.parts + other.parts, self.constant + other.constant)

    def digit(self, stride: int, extent: int | None) -> DigitSum | None:
        """``(self // stride) % extent`` (no modulus with None), or None where carries cannot be excluded. Kept: the same are asked again."""
        known = self._digits
        if known is None:
            known = self._digits = {}
        key = (stride, extent)
        if key not in known:
            known[key] = self._digit(stride, extent)
        return known[key]

    def _digit(self, stride: int, extent: int | None) -> DigitSum | None:
        top = 0 if extent is None else stride * extent
        middle: list[Part] = []
        low = self.constant % stride  # the greatest value of what lies below the digit
        pending = list(self.parts)
        while pending:
            p = pending.pop()
            weight, end = p.weight, p.weight * p.extent
            if p.extent <= 1:
                continue
            cut = stride if weight < stride < end else top if weight < top < end else 0
            if cut:
                pieces = _split(p, cut)
                if pieces is None:
                    return None
                pending += pieces
            elif weight < stride:
                low += end - weight
            elif top and weight >= top:
                if weight % top:
                    return None
            elif weight % stride:
                return None
            else:
                middle.append(Part(weight // stride, p.extent, p.digit, p.below, p.term))
        if low >= stride:
            return None
        constant = self.constant // stride if extent is None else self.constant // stride % extent
        result = DigitSum(tuple(middle), constant)
        if extent is not None and result.largest >= extent:
            return None
        return result


def _split(p: Part, boundary: int) -> list[Part] | None:
    if boundary % p.weight:
        return None
    q = boundary // p.weight
    if p.digit is None:
        assert p.term is not None
        return [Part(p.weight, q, None, 1, p.term % q), Part(boundary, -(-p.extent // q), None, 1, p.term // q)]
    if p.extent % q:
        return None
    return [Part(p.weight, q, p.digit, p.below), Part(boundary, p.extent // q, p.digit, p.below * q)]


class LoopDigits:
    """The digits of the variables of one parallel loop, by its layout."""

    def __init__(self, variables: Sequence[Var], layout: FragmentLayout, ranges: Ranges) -> None:
        self.variables = list(variables)
        self.layout = layout
        self.ranges = ranges

    def of(self, e: Expr) -> DigitSum | None:
        """The expression as a sum of digits; None if it is no such sum."""
        value = const_int(e)
        if value is not None:
            return DigitSum((), value) if value >= 0 else None
        if isinstance(e, Var) and e in self.variables:
            dim = self.variables.index(e)
            return DigitSum(tuple(Part(d.stride, d.extent, d) for d in self.layout.digits if d.dim == dim))
        if isinstance(e, Binary) and e.op in ("floordiv", "floormod"):
            return self._division(e)
        if isinstance(e, Binary) and e.op in ("add", "sub", "mul"):
            return self._linear(e)
        return self._opaque(e)

    def _division(self, e: Binary) -> DigitSum | None:
        divisor, inner = const_int(e.b), None
        if divisor is not None and divisor > 0:
            inner = self.of(e.a)
        if inner is None:
            return self._opaque(e)
        assert divisor is not None
        found = inner.digit(divisor, None) if e.op == "floordiv" else inner.digit(1, divisor)
        return found if found is not None else self._opaque(e)

    def _linear(self, e: Binary) -> DigitSum | None:
        terms, total = linear(e)
        if total < 0:
            return None
        result = DigitSum((), total)
        for term, factor in terms:
            if isinstance(term, Binary) and term.op in ("add", "sub", "mul"):
                inner = self._opaque(term)
            else:
                inner = self.of(term)
            if inner is None or factor < 0:
                return None
            result = result + inner.times(factor)
        return result

    def _opaque(self, e: Expr) -> DigitSum | None:
        """A term that no loop variable occurs in, of known range."""
        if any(isinstance(x, Var) and x in self.variables for x in walk_expr(e)):
            return None
        low, high = self.ranges.bounds(e)
        if low is None or high is None or low < 0:
            return None
        return DigitSum((Part(1, high + 1, None, 1, e),))


@dataclass(frozen=True)
class FragmentAccess:
    """How a loop's iteration reaches an element of a fragment: ``digits`` pairs each digit of the fragment's layout with its
    value in digits of the loop (None: not expressible). ``carried``: digits of which only the value before the modulus is such a sum.
    ``reads``: the thread that runs the iteration holds the element.
    ``writes``: so does every thread that holds it run the iteration.
    """

    digits: tuple[tuple[Digit, DigitSum | None], ...]
    reads: bool
    writes: bool
    carried: tuple[tuple[Digit, DigitSum], ...] = ()


def fragment_access(layout: FragmentLayout, indices: Sequence[Expr], loop: LoopDigits) -> FragmentAccess:
    sums = [loop.of(i) for i in indices]
    pairs: list[tuple[Digit, DigitSum | None]] = []
    reads = layout.threads == loop.layout.threads
    matched: list[Part] = []
    carried: list[tuple[Digit, DigitSum]] = []
    for d in layout.digits:
        total = sums[d.dim]
        value = None if total is None else total.digit(d.stride, d.extent)
        pairs.append((d, value))
        if value is None and total is not None and (whole := total.digit(d.stride, None)) is not None:
            carried.append((d, whole))
        if d.axis == THREAD:
            if value is None or not _same_threads(d, value):
                reads = False
            else:
                matched += value.parts
    return FragmentAccess(tuple(pairs), reads, reads and _covers(loop.layout, matched), tuple(carried))


def _same_threads(d: Digit, value: DigitSum) -> bool:
    """Whether the digit of the fragment's thread number equals the same digit of the number of the thread that runs."""
    if value.constant or value.largest != d.extent - 1:
        return False
    product = 1
    for p in value.parts:
        if not p.is_thread or p.scale != p.weight * d.scale:
            return False
        product *= p.extent
    return product == d.extent


def _covers(loop: FragmentLayout, matched: list[Part]) -> bool:
    """Whether every thread digit of the loop decides about the place of the element."""
    for d in loop.digits:
        if d.axis != THREAD or d.extent == 1:
            continue
        product = 1
        for p in matched:
            if p.digit == d:
                product *= p.extent
        if product != d.extent:
            return False
    return True


def pulled_back(layout: FragmentLayout, indices: Sequence[Expr], variables: Sequence[Var], extents: Sequence[int | None],
                ranges: Ranges | None = None) -> FragmentLayout | None:
    """The loop layout under which each thread runs the iterations whose elements of the fragment it holds; None where there is none.

    Every variable must decide about the element. ``ranges`` knows what else occurs in indices (an outer loop's variable, say). Where a variable is moved
    by something, whether the threads are the right ones is to be asked of ``fragment_access``.
    """
    if any(e is None for e in extents):
        return None
    whole = _of_moved_variables(layout, indices, variables, extents)
    return whole if whole is not None or layout.is_padded() else _of_digits(layout, indices, variables, extents, ranges or Ranges())  # type: ignore[arg-type]


def _of_moved_variables(layout: FragmentLayout, indices: Sequence[Expr], variables: Sequence[Var], extents: Sequence[int | None]) -> FragmentLayout | None:
    """Where every variable is an index by itself, over the whole extent of its dimension; or moved by something that is the same for all iterations,
    over a part of it."""
    where: dict[int, int] = {}
    for dim, index in enumerate(indices):
        k = _moved_variable(index, variables)
        if k is not None:
            if k in where.values() or extents[k] is None or extents[k] > layout.shape[dim]:  # type: ignore[operator]
                return None
            where[dim] = k
        elif const_int(index) == 0 and layout.shape[dim] == 1:
            continue
        else:
            return None
    if len(where) != len(variables):
        return None
    digits: list[Digit] = []
    for d in layout.digits:
        if d.dim in where:
            part = _up_to(d, extents[where[d.dim]])  # type: ignore[arg-type]
            if part is None:
                return None
            digits += [replace(p, dim=where[d.dim]) for p in part]
    return FragmentLayout(tuple(int(e) for e in extents if e is not None), _without_gaps(digits), layout.replicas)


def _moved_variable(index: Expr, variables: Sequence[Var]) -> int | None:
    """The number of the variable that an index is, up to what the variables do not decide."""
    order = list(variables)
    if isinstance(index, Var) and index in order:
        return order.index(index)
    if not isinstance(index, Binary) or index.op not in ("add", "sub"):
        return None
    mine = [(t, f) for t, f in linear(index)[0] if any(isinstance(x, Var) and x in order for x in walk_expr(t))]
    if len(mine) != 1 or mine[0][1] != 1 or not isinstance(mine[0][0], Var):
        return None
    return order.index(mine[0][0])


def _up_to(d: Digit, extent: int) -> tuple[Digit, ...] | None:
    """A digit's part below an extent of its dimension; None where that takes threads away or cuts a step in two."""
    if d.stride * d.extent <= extent:
        return (d,)
    if d.axis == THREAD:
        return None
    if d.stride >= extent:
        return ()
    if extent % d.stride:
        return (d,)  # covers more than the extent, which is guarded
    return (replace(d, extent=extent // d.stride),)


def _without_gaps(digits: list[Digit]) -> tuple[Digit, ...]:
    """Register digits numbered without holes."""
    scale, numbered = 1, dict[Digit, int]()
    for d in sorted((d for d in digits if d.axis != THREAD), key=lambda d: d.scale):
        numbered[d] = scale
        scale *= d.extent
    return tuple(d if d.axis == THREAD else replace(d, scale=numbered[d]) for d in digits)


def _of_digits(layout: FragmentLayout, indices: Sequence[Expr], variables: Sequence[Var], extents: Sequence[int], ranges: Ranges) -> FragmentLayout | None:
    """Where indices are sums of variables with factors, quotients and remainders of such: a piece of a tile, or a tile in another shape."""
    from .layout import REGISTER

    plain = FragmentLayout(tuple(extents), tuple(Digit(k, e, 1, REGISTER, 1) for k, e in enumerate(extents) if e > 1))
    loop = LoopDigits(variables, plain, ranges)
    sums = [loop.of(i) for i in indices]
    threads: list[Digit] = []
    registers: list[Digit] = []
    for d in layout.digits:
        total = sums[d.dim]
        value = None if total is None else total.digit(d.stride, d.extent)
        if value is None:
            return None
        if d.axis == THREAD and not _decided_by_loop(d, value):
            return None
        for p in value.parts:
            if p.digit is not None:
                (threads if d.axis == THREAD else registers).append(Digit(p.digit.dim, p.extent, p.below, d.axis, d.scale * p.weight))
    digits = _without_gaps([*threads, *registers])
    return FragmentLayout(tuple(extents), digits, layout.replicas) if _cover(digits, extents) else None


def _decided_by_loop(d: Digit, value: DigitSum) -> bool:
    """Whether a digit of the thread number takes each of its values once, and only the loop's variables decide which."""
    product = 1
    for p in value.parts:
        if p.digit is None:
            return False
        product *= p.extent
    return not value.constant and product == d.extent and value.largest == d.extent - 1


def _cover(digits: Sequence[Digit], extents: Sequence[int]) -> bool:
    """Whether the digits of each dimension cover it without gaps."""
    for dim, extent in enumerate(extents):
        below = 1
        for d in sorted((d for d in digits if d.dim == dim), key=lambda d: d.stride):
            if d.stride != below:
                return False
            below *= d.extent
        if below != extent:
            return False
    return True


def projected(loop: FragmentLayout, indices: Sequence[Expr], variables: Sequence[Var], shape: Sequence[int], threads: int) -> FragmentLayout | None:
    """The fragment layout under which a loop's threads hold what their iterations access.

    Dimensions indexed by a variable take its digits, by a quotient of one those that decide about it; the threads of what is left hold
    copies; dimensions indexed by anything else lie in registers.
    """
    from .layout import REGISTER, Replica

    order = list(variables)
    used: set[int] = set()
    digits: list[Digit] = []
    shared: list[Replica] = []  # threads that differ in the remainder of a quotient only
    scale = 1
    for dim in reversed(range(len(shape))):
        index = indices[dim]
        var, divisor = _quotient(index)
        if var is not None and var in order:
            k = order.index(var)
            if k in used or loop.shape[k] != shape[dim] * divisor:
                return None
            used.add(k)
            mine = _divided(sorted((d for d in loop.digits if d.dim == k), key=lambda d: d.stride), divisor, shared)
            if mine is None:
                return None
            for d in mine:
                if d.axis == REGISTER:
                    digits.append(Digit(dim, d.extent, d.stride, REGISTER, scale))
                    scale *= d.extent
                else:
                    digits.append(replace(d, dim=dim))
        elif any(isinstance(x, Var) and x in order for x in walk_expr(index)):
            return None
        elif shape[dim] > 1:
            digits.append(Digit(dim, shape[dim], 1, REGISTER, scale))
            scale *= shape[dim]
    copies = [Replica(d.extent, d.scale) for d in loop.digits if d.axis == THREAD and d.dim not in used]
    return FragmentLayout(tuple(shape), tuple(digits), (*loop.replicas, *copies, *shared))


def _quotient(index: Expr) -> tuple[Var | None, int]:
    """``x`` and 1 of ``x``, ``x`` and ``c`` of ``x // c``."""
    if isinstance(index, Var):
        return index, 1
    divisor = const_int(index.b) if isinstance(index, Binary) and index.op == "floordiv" and isinstance(index.a, Var) else None
    return (index.a, divisor) if divisor is not None and divisor > 0 else (None, 1)  # type: ignore[attr-defined]


def _divided(digits: Sequence[Digit], divisor: int, shared: list[Any]) -> list[Digit] | None:
    """The digits of a quotient of what the digits count; threads of the remainder are added to ``shared``. None where a digit decides about both unevenly."""
    from .layout import Replica

    out: list[Digit] = []
    for d in digits:
        below = min(d.extent, max(1, divisor // d.stride))  # values of the digit that the remainder takes
        if divisor % d.stride and d.stride % divisor or d.extent % below:
            return None
        if below > 1 and d.axis == THREAD:
            shared.append(Replica(below, d.scale))
        if d.extent > below or divisor == 1:
            out.append(replace(d, extent=d.extent // below, stride=max(1, d.stride // divisor), scale=d.scale * below))
    return out


def replicated(shape: Sequence[int], threads: int) -> FragmentLayout:
    """Every thread holds everything."""
    from .layout import REGISTER, Replica

    digits: list[Digit] = []
    scale = 1
    for dim in reversed(range(len(shape))):
        if shape[dim] > 1:
            digits.append(Digit(dim, shape[dim], 1, REGISTER, scale))
            scale *= shape[dim]
    return FragmentLayout(tuple(shape), tuple(digits), (Replica(threads, 1),) if threads > 1 else ())


def same_placement(a: FragmentLayout, b: FragmentLayout) -> bool:
    """Equal up to the order of digits and replicas."""
    return (a.shape == b.shape and _sorted(a.digits) == _sorted(b.digits) and _sorted(a.replicas) == _sorted(b.replicas))


def _sorted(items: Sequence[Any]) -> list[str]:
    return sorted(map(repr, items))
