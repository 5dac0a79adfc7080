"""A parallel loop as what one thread does: its share of the iterations, in registers and vectors."""
from __future__ import annotations

import itertools
import math

from ..analysis.bounds import Ranges
from ..analysis.digits import DigitSum, FragmentAccess, LoopDigits, Part, fragment_access
from ..analysis.guards import inside
from ..analysis.layout import REGISTER, THREAD, Digit, FragmentLayout
from ..ir.buffer import FRAGMENT, Buffer
from ..ir.build import binary, const, const_int, select
from ..ir.evaluate_int import evaluate
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Let, Parallel, Stmt, Store, TileOp
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from ..source.span import Span
from .atomics import atomic_statement, lower_atomic_calls
from .context import LaunchState
from .errors import LoweringError, RacingUpdate
from .joined_adds import joined_additions
from .layouts import fragment_accesses, updates_memory
from .rewrite import map_children, map_expr, map_own, substitute
from .unit import Unit, unit
from .vectors import Lanes, choose_lanes, vectorised

_UNROLL_LIMIT = 64


def lower_parallel(s: Parallel, layout: FragmentLayout, state: LaunchState, ranges: Ranges) -> list[Stmt]:
    """Units: fragments that lie wrongly are exchanged through shared memory before and after the loop itself."""
    known = ranges.copy()
    for var, extent in zip(s.vars, s.extents):
        known.set_extent(var, extent)
    _set_inner_ranges(s.body, known)
    digits = LoopDigits(s.vars, layout, known)
    # Copies of an iteration that updates memory would see each other's results: only the first runs.
    once = any(r.extent > 1 for r in layout.replicas) and updates_memory(s) and id(s) not in state.each_thread
    before, after, staged = _exchange(s, digits, state, once)
    body = _redirect(s.body, staged, known)
    loop = LoopLowering(s, layout, state, digits, known, once)
    return [*before, loop.lower(body), *after]


def _set_inner_ranges(body: Body, ranges: Ranges) -> None:
    for inner in walk_statements(body):
        if isinstance(inner, For):
            ranges.set_extent(inner.var, inner.extent, inner.start, inner.step)
        elif isinstance(inner, Let):
            ranges.set_value(inner.var, inner.value)


# -- fragments of another layout -------------------------------------------------------------------------------------------------
def _exchange(s: Parallel, digits: LoopDigits, state: LaunchState, once: bool) -> tuple[list[Stmt], list[Stmt], dict[Buffer, Buffer]]:
    wrong: dict[Buffer, bool] = {}  # fragment -> whether it is written
    for a in fragment_accesses(s.body):
        if a.buffer not in state.layouts:
            raise LoweringError(f"No layout over the threads is known for the fragment {a.buffer.name}.", s.span, "layout")
        access = fragment_access(state.layouts[a.buffer], a.indices, digits)
        if not ((access.writes and not once) if a.writes else access.reads):
            wrong[a.buffer] = wrong.get(a.buffer, False)
    for a in fragment_accesses(s.body):
        if a.buffer in wrong and a.writes:
            wrong[a.buffer] = True
    before: list[Stmt] = []
    after: list[Stmt] = []
    staged: dict[Buffer, Buffer] = {}
    for fragment, written in wrong.items():
        if written:
            _refuse_shared_updates(s, fragment)
        shape = fragment.static_shape()
        assert shape is not None
        place = state.temporary_shared(f"{fragment.name}_exchange", shape, fragment.dtype, s.span)
        state.passes.note(f"{fragment.name} is exchanged between threads through shared memory"
                          f"{f' (line {s.span.line})' if s.span is not None else ''}")
        staged[fragment] = place
        before.append(Alloc(s.span, place))
        if not (written and _overwrites(s, fragment)):
            before += _move(fragment, place, state, s.span, True)
        if written:
            after += _move(fragment, place, state, s.span, False)
    return before, after, staged


def _refuse_shared_updates(s: Parallel, fragment: Buffer) -> None:
    """Raises LoweringError where iterations of several threads update one element: in shared memory they would race."""
    wide = {v for v, e in zip(s.vars, s.extents) if const_int(e) != 1}
    for x in walk_statements(s.body):
        if isinstance(x, Store) and x.buffer is fragment and any(isinstance(e, Load) and e.buffer is fragment for e in walk_expr(x.value)) \
                and not wide <= set(x.indices) and not _each_once(s, x.indices):
            raise RacingUpdate(f"Several iterations of this loop update one element of the fragment {fragment.name}, and they run in different threads. "
                               "Use T.reduce_sum over a tile shaped for it, a reducer (T.alloc_reducer), or T.atomic_add on a shared tile.",
                               x.span, fragment.name)


_MOST_TRIED = 65536  # iterations


def _each_once(s: Parallel, indices: tuple[Expr, ...]) -> bool:
    """Whether no two iterations have the same indices, by trying them all."""
    extents = [const_int(e) for e in s.extents]
    if None in extents or math.prod(extents) > _MOST_TRIED:  # type: ignore[arg-type]
        return False
    seen: set[tuple[int, ...]] = set()
    for values in itertools.product(*(range(e) for e in extents)):  # type: ignore[arg-type]
        known = dict(zip(s.vars, values))
        try:
            place = tuple(evaluate(i, known) for i in indices)
        except (KeyError, ValueError):
            return False
        if place in seen:
            return False
        seen.add(place)
    return True


def _overwrites(s: Parallel, fragment: Buffer) -> bool:
    """Whether the loop writes every element and reads none."""
    accesses = [a for a in fragment_accesses(s.body) if a.buffer is fragment]
    if not all(a.writes for a in accesses):
        return False
    extents = dict(zip(s.vars, (const_int(e) for e in s.extents)))
    for x in s.body:
        if isinstance(x, Store) and x.buffer is fragment and len(set(x.indices)) == len(x.indices) and all(
                isinstance(i, Var) and extents.get(i) == const_int(e) for i, e in zip(x.indices, fragment.shape)):
            return True
    return False


def _move(fragment: Buffer, place: Buffer, state: LaunchState, span: Span | None, spill: bool) -> list[Stmt]:
    variables = tuple(Var("int32", span, "xyzw"[k % 4], "loop") for k in range(fragment.ndim))
    source, target = (fragment, place) if spill else (place, fragment)
    store = Store(span, target, variables, Load(source.dtype, span, source, variables))
    copy = Parallel(span, variables, fragment.shape, (store,))
    return lower_parallel(copy, state.layouts[fragment], state, Ranges())


def _redirect(body: Body, staged: dict[Buffer, Buffer], ranges: Ranges) -> Body:
    """Accesses to the copies in shared memory. An index may leave a fragment, where it means one of the thread's own registers; it must not leave
    the copy, beside which other tiles lie: then nothing is stored, and what is loaded is 0."""
    if not staged:
        return body

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in staged:
            indices = tuple(map_expr(i, rule) for i in e.indices)
            load = Load(e.dtype, e.span, staged[e.buffer], indices)
            within = inside(indices, e.buffer.shape, ranges)
            return load if within is None else select(within, load, const(0, e.dtype))
        return None

    def visit(statements: Body) -> Body:
        out: list[Stmt] = []
        for s in statements:
            s = map_children(map_own(s, rule), visit)
            if isinstance(s, Store) and s.buffer in staged:
                within = inside(s.indices, s.buffer.shape, ranges)
                s = Store(s.span, staged[s.buffer], s.indices, s.value)
                s = s if within is None else If(s.span, within, (s,))
            out.append(s)
        return tuple(out)

    return visit(body)


# -- the loop itself ---------------------------------------------------------------------------------------------------------------
@dataclass
class _Counter:
    """The loop over one register digit; ``lanes`` is the vector part of the innermost."""

    digit: Digit
    var: Var | None
    lanes: Lanes | None = None

    @property
    def value(self) -> Expr:
        value: Expr = const(0) if self.var is None else self.var
        if self.lanes is not None:
            value = value * self.lanes.width + self.lanes.var
        return value


class LoopLowering:
    def __init__(self, s: Parallel, layout: FragmentLayout, state: LaunchState, digits: LoopDigits, ranges: Ranges,
                 once: bool = False) -> None:
        self.s, self.layout, self.state, self.digits, self.ranges, self.whole_once = s, layout, state, digits, ranges, once
        self.counters: list[_Counter] = []
        self.total = 1

    def lower(self, body: Body) -> Unit:
        lanes = choose_lanes(self.s, self.layout, body, self.state)
        self._make_counters(lanes)
        values, lets = self._variables()
        lowered = self._body(body, values, lanes)
        lowered = self._bounds(lowered, values, lanes)
        asynchronous = lanes is not None and lanes.asynchronous
        for c in reversed(self.counters):
            if c.var is None:
                continue
            extent = c.digit.extent if c.lanes is None else c.digit.extent // c.lanes.width
            lowered = (For(self.s.span, c.var, const(0), const(extent), lowered, self._kind()),)
        whole: Body = (*lets, *lowered)
        condition = self.first_copy() if self.whole_once else None
        if condition is not None:
            whole = (If(self.s.span, condition, whole),)
        if self.layout.threads < self.state.threads:
            whole = (If(self.s.span, binary("lt", self.state.thread, const(self.layout.threads)), whole),)
        return unit(whole, self.s.span, asynchronous=asynchronous)

    def _kind(self) -> str:
        return "unroll" if self.total <= _UNROLL_LIMIT or fragment_accesses(self.s.body) else "serial"

    def _make_counters(self, lanes: Lanes | None) -> None:
        for d in sorted((d for d in self.layout.digits if d.axis == REGISTER), key=lambda d: -d.scale):
            mine = lanes if lanes is not None and d == lanes.digit else None
            extent = d.extent if mine is None else d.extent // mine.width
            var = Var("int32", None, f"r{len(self.counters)}", "loop") if extent > 1 else None
            self.counters.append(_Counter(d, var, mine))
            self.total *= extent

    def _variables(self) -> tuple[dict[Var, Expr], list[Stmt]]:
        """The loop variables as sums of a thread part, named once, and counters."""
        values: dict[Var, Expr] = {}
        lets: list[Stmt] = []
        for k, var in enumerate(self.s.vars):
            own: Expr = const(0)
            for d in self.layout.digits:
                if d.dim == k and d.axis == THREAD:
                    own = own + self._thread_digit(d) * d.stride
            if const_int(own) is None:
                name = Var("int32", var.span, f"{var.name}_t", "let")
                lets.append(Let(self.s.span, name, own))
                own = name
            for c in self.counters:
                if c.digit.dim == k:
                    own = own + c.value * c.digit.stride
            values[var] = own
        return values, lets

    def _thread_digit(self, d: Digit) -> Expr:
        number: Expr = self.state.thread if d.scale == 1 else self.state.thread // d.scale
        return number if d.scale * d.extent >= self.state.threads else number % d.extent

    def first_copy(self) -> Expr | None:
        """Whether this thread runs the first copy of its iterations; None if there is one only."""
        condition: Expr | None = None
        for r in self.layout.replicas:
            if r.extent == 1:
                continue
            number = self.state.thread if r.scale == 1 else self.state.thread // r.scale
            if r.scale * r.extent < self.state.threads:
                number = number % r.extent
            one = binary("eq", number, const(0))
            condition = one if condition is None else binary("and", condition, one)
        return condition

    def _bounds(self, body: Body, values: dict[Var, Expr], lanes: Lanes | None) -> Body:
        """Digits may cover more than the loop's extents."""
        condition: Expr | None = None
        for k, (covered, extent) in enumerate(zip(self.layout.covered(), self.layout.shape)):
            if covered > extent:
                value = values[self.s.vars[k]]
                if lanes is not None:
                    value = substitute(value, {lanes.var: const(0)})
                one = binary("lt", value, const(extent))
                condition = one if condition is None else binary("and", condition, one)
        return body if condition is None else (If(self.s.span, condition, body),)

    # -- statements ------------------------------------------------------------------------------------------------------------
    def _body(self, body: Body, values: dict[Var, Expr], lanes: Lanes | None) -> Body:
        if lanes is not None:
            made = vectorised(body, values, lanes, self)
            if made is not None:
                return made
            lowered = self.statements(body, values)
            loop = For(self.s.span, lanes.var, const(0), const(lanes.width), lowered, "unroll")
            return (loop,)
        return self.statements(body, values)

    def statements(self, body: Body, values: dict[Var, Expr]) -> Body:
        out: list[Stmt] = []
        while body:
            made, count = joined_additions(body, values, self)
            out += made or self.statement(body[0], values)
            body = body[count or 1:]
        return tuple(out)

    def statement(self, s: Stmt, values: dict[Var, Expr]) -> Body:
        if isinstance(s, Store):
            return self.store(s, s.indices, self.expression(s.value, values), values)
        if isinstance(s, TileOp):
            return self._operator(s, values)
        if isinstance(s, Evaluate):
            return self.once((Evaluate(s.span, self.expression(s.value, values)),), s.span)
        if isinstance(s, For) and s.kind == "pipelined":
            s = For(s.span, s.var, s.start, s.extent, s.body, "serial", s.step)
        s = map_own(s, lambda e: self.expression(e, values))
        if isinstance(s, For) and s.kind == "serial" and fragment_accesses(s.body) and (const_int(s.extent) or 1000) <= _UNROLL_LIMIT:
            s = For(s.span, s.var, s.start, s.extent, s.body, "unroll", s.step)
        return (map_children(s, lambda inner: self.statements(inner, values)),)

    def store(self, s: Store, indices: tuple[Expr, ...], value: Expr, values: dict[Var, Expr]) -> Body:
        if s.buffer.scope == FRAGMENT:
            buffer, place = self.registers(s.buffer, indices, values)
            return (Store(s.span, buffer, place, value),)
        place = tuple(self.expression(i, values) for i in indices)
        if s.buffer.scope.startswith("local"):
            return (Store(s.span, s.buffer, place, value),)
        buffer, place = self.state.shared_element(s.buffer, place)
        return self.once((Store(s.span, buffer, place, value),), s.span)

    def once(self, body: Body, span: Span | None) -> Body:
        """Effects on memory happen for the first copy of an iteration only."""
        condition = None if self.whole_once or id(self.s) in self.state.each_thread else self.first_copy()
        return body if condition is None else (If(span, condition, body),)

    def _operator(self, s: TileOp, values: dict[Var, Expr]) -> Body:
        if s.op == "atomic":
            dst = s.region("dst")
            value = self.expression(s.args["value"], values)
            if dst.buffer.scope == FRAGMENT:
                raise LoweringError(f"T.atomic_{s.args['kind']} on the fragment {dst.buffer.name}: registers are private; use a shared or global "
                                    "buffer.", s.span, "atomic-scope")
            place = tuple(self.expression(i, values) for i in dst.mins)
            buffer, place = self.state.shared_element(dst.buffer, place)
            return self.once((atomic_statement(s, buffer, place, value, self.state.target),), s.span)
        if s.op in ("print", "device_assert"):
            from .debugging import lower_debugging

            return self.once(lower_debugging(s, lambda e: self.expression(e, values)), s.span)
        raise LoweringError(f"T.{s.op} inside T.Parallel: its operands are tiles of the whole block. Move it out of the loop.", s.span, "parallel-tile-op")

    # -- expressions -----------------------------------------------------------------------------------------------------------
    def expression(self, e: Expr, values: dict[Var, Expr]) -> Expr:
        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Var):
                return values.get(x)
            if not isinstance(x, Load):
                return lower_atomic_calls(x, lambda inner: map_expr(inner, rule), self.state)
            if x.buffer.scope == FRAGMENT:
                buffer, place = self.registers(x.buffer, x.indices, values)
                return Load(x.dtype, x.span, buffer, place)
            indices = tuple(map_expr(i, rule) for i in x.indices)
            buffer, indices = self.state.shared_element(x.buffer, indices)
            return Load(x.dtype, x.span, buffer, indices)

        return map_expr(e, rule)

    def registers(self, fragment: Buffer, indices: tuple[Expr, ...], values: dict[Var, Expr]) -> tuple[Buffer, tuple[Expr, ...]]:
        """The register that holds an element of a fragment which lies right for this loop."""
        access = fragment_access(self.state.layouts[fragment], indices, self.digits)
        return self.state.registers_of(fragment), (self._register(access, indices, values),)

    def _register(self, access: FragmentAccess, indices: tuple[Expr, ...], values: dict[Var, Expr]) -> Expr:
        number: Expr = const(0)
        for d, value in access.digits:
            if d.axis != REGISTER:
                continue
            if value is not None:
                number = number + self._sum(value, values) * d.scale
            elif (whole := next((w for c, w in access.carried if c == d), None)) is not None:
                number = number + self._sum(whole, values) % d.extent * d.scale
            else:
                index = self.expression(indices[d.dim], values)
                number = number + (index // d.stride) % d.extent * d.scale
        return number

    def _sum(self, value: DigitSum, values: dict[Var, Expr]) -> Expr:
        total: Expr = const(value.constant)
        for p in value.parts:
            total = total + self._part(p, values) * p.weight
        return total

    def _part(self, p: Part, values: dict[Var, Expr]) -> Expr:
        if p.digit is None:
            assert p.term is not None
            return self.expression(p.term, values)
        if p.digit.axis == THREAD:
            whole: Expr = self._thread_digit(p.digit)
        else:
            whole = next(c.value for c in self.counters if c.digit == p.digit)
        if p.below > 1:
            whole = whole // p.below
        return whole if p.below * p.extent >= p.digit.extent else whole % p.extent
