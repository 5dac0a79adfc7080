"""Tile statements as what one thread does. The result still has units (``unit.py``), which barrier insertion resolves."""
from __future__ import annotations

from dataclasses import replace

from ..analysis.bounds import Ranges
from ..analysis.digits import LoopDigits, fragment_access
from ..analysis.divergence import Divergence
from ..analysis.layout import THREAD, FragmentLayout, Replica
from ..ir import dtypes
from ..ir.buffer import FRAGMENT, GLOBAL, TMEM, VAR, Buffer
from ..ir.build import binary, const, const_int, unary
from ..ir.expr import Call, Expr, Load, Select, Var
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Parallel, Role, Stmt, Store, TileOp, While
from ..ir.stmt import walk as walk_statements
from .async_copy import async_copy_bytes, async_copy_statement, one_copy
from .atomics import atomic_statement, lower_atomic_calls
from .context import LaunchState, PassContext
from .divergent import check_divergent, refuse_block_barriers
from .errors import LoweringError
from .layouts import fragment_accesses, static_extents
from .matrix.barrier_functions import group_barriers
from .matrix.exact import exact_tiles
from .matrix.lower import lower_matrix_op
from .matrix.shape import MATRIX_OPS
from .operators import lower_operator
from .own_elements import Places, tells_thread
from .parallel import LoopLowering, lower_parallel
from .prologue import prepare_launch
from .reduce import lower_reduction
from .rewrite import map_children, map_expr
from .scan import lower_scan
from .unit import Unit, is_memory, unit
from .uses import buffers_in
from .wide_loops import wide_copy

_UNROLL_LIMIT = 64
_PER_THREAD = ("atomic", "print", "device_assert", "annotate")  # operators that each thread may run for itself


def lower_threads(program: TileProgram, ctx: PassContext) -> TileProgram:
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        out.append(ThreadLowering(s, ctx.state(number, s)).launch() if isinstance(s, Launch) else s)
    return replace(program, body=tuple(out))


class ThreadLowering:
    def __init__(self, s: Launch, state: LaunchState) -> None:
        self.s, self.state = s, state
        self.ranges = Ranges()
        for var, extent in zip((*s.block_vars, *state.thread_vars), (*s.grid, *s.threads)):
            self.ranges.set_extent(var, extent)
        self.divergence = Divergence(s.body, state.thread_vars)
        self.places = Places()
        state.exact = exact_tiles(s.body)
        self.finish: list[Stmt] = []
        self.loops: list[bool] = []  # of each enclosing loop, whether threads leave it at different times
        self.uses_tiles = any(isinstance(x, Parallel) or (isinstance(x, TileOp) and x.op not in _PER_THREAD) for x in walk_statements(s.body))
        self.whole_block = FragmentLayout((), (), (Replica(state.threads, 1),) if state.threads > 1 else ())
        self.group_barriers = group_barriers((x.low, x.high) for x in walk_statements(s.body) if isinstance(x, Role))

    def launch(self) -> Launch:
        start, self.finish = prepare_launch(self.s, self.state)
        body = _without_unused_views((*start, *self.body(self.s.body, False), *self.finish))
        attrs = {**self.s.attrs, "thread_vars": self.state.thread_vars}
        return replace(self.s, body=body, attrs=attrs)

    def body(self, body: Body, divergent: bool) -> Body:
        out: list[Stmt] = []
        for s in body:
            out += self.statement(s, divergent)
        return tuple(out)

    def statement(self, s: Stmt, divergent: bool) -> list[Stmt]:
        if isinstance(s, Alloc):
            return self._alloc(s)
        if isinstance(s, Parallel):
            if id(s) not in self.state.each_thread:
                self._converged(s, divergent, "T.Parallel")
            return self._parallel(s)
        if isinstance(s, TileOp):
            return self._operator(s, divergent)
        if isinstance(s, Store):
            return self._store(s, divergent)
        if isinstance(s, Let):
            before, value = self.expression(s.value, s, divergent)
            self.ranges.set_value(s.var, value)
            return [*before, self._told(replace(unit((Let(s.span, s.var, value),), s.span), by_hand=True))]
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and s.value.op == "ptx_cp_async":
            return self._cp_async(s, s.value)
        if isinstance(s, Evaluate):
            before, value = self.expression(s.value, s, divergent)
            return [*before, replace(unit((Evaluate(s.span, value),), s.span), by_hand=True)]
        if isinstance(s, Role):
            return [self._role(s, divergent)]
        if isinstance(s, If):
            return self._if(s, divergent)
        if isinstance(s, For):
            copied = one_copy(s)
            return self._for(s, divergent) if copied is None else self.statement(copied, divergent)
        if isinstance(s, While):
            return self._while(s, divergent)
        if isinstance(s, Jump):
            return self._jump(s, divergent)
        raise LoweringError(f"{type(s).__name__} cannot be lowered", s.span)

    def _converged(self, s: Stmt, divergent: bool, what: str) -> None:
        if divergent:
            raise LoweringError(f"{what} works on a tile with all threads of the block, but this code is run by some of them only (it is under a "
                                "condition on the thread index). Move it out of the condition, or write it with scalar accesses.", s.span, "divergent-tile-op")

    # -- declarations and structure ------------------------------------------------------------------------------------------------
    def _alloc(self, s: Alloc) -> list[Stmt]:
        b = s.buffer
        if b.scope == FRAGMENT:
            if b not in self.state.layouts:
                return []
            registers = self.state.registers_of(b)
            out: list[Stmt] = [Alloc(s.span, registers)]
            if self.state.layouts[b].is_padded():
                r = Var("int32", None, "r", "loop")
                zero = Store(s.span, registers, (r,), const(0, registers.dtype))
                out.append(unit((For(s.span, r, const(0), registers.shape[0], (zero,), "unroll"),), s.span))
            return out
        if b.scope == TMEM or (b.scope == GLOBAL and "address" not in b.attrs and b.view_of is None):
            return []
        if b.scope == GLOBAL:
            return [unit((s,), s.span)]
        return [s]

    def _if(self, s: If, divergent: bool) -> list[Stmt]:
        before, cond = self.expression(s.cond, s, divergent)
        inner = divergent or self.divergence.differs(s.cond)
        made = If(s.span, cond, self.body(s.then, inner), self.body(s.other, inner))
        return [*before, made if not inner or divergent else self._as_unit(made)]

    def _role(self, s: Role, divergent: bool) -> Role:
        """The code of a group of threads, laid out over the group."""
        self._converged(s, divergent, "The code of a group of threads")
        outer, whole = self.state, self.whole_block
        self.state = outer.for_role(s.low, s.high)
        self.whole_block = FragmentLayout((), (), (Replica(self.state.threads, 1),))
        try:
            body = self.body(s.then, False)
            if self.state.warpgroup is not None and self.state.warpgroup_value is not None:
                body = (unit((Let(s.span, self.state.warpgroup, self.state.warpgroup_value),), s.span), *body)
            made = replace(s, cond=self._plain(s.cond), then=body)
        finally:
            self.state, self.whole_block = outer, whole
        refuse_block_barriers(made)
        return made

    def _for(self, s: For, divergent: bool) -> list[Stmt]:
        first, start = self._head(s.start, s, divergent)
        second, extent = self._head(s.extent, s, divergent)
        self.ranges.set_extent(s.var, extent, start, s.step)
        inner = divergent or self.divergence.differs(s.start) or self.divergence.differs(s.extent)
        kind = self._loop_kind(s)
        wide = self._wide(s, divergent)
        if wide is not None:
            return [wide]
        self.loops.append(inner)
        body = self.body(s.body, inner)
        self.loops.pop()
        whole = kind == "vectorized" and not any(isinstance(x, Unit) and (x.barrier or x.waits or x.asynchronous) for x in walk_statements(body))
        if kind == "vectorized":
            plain = strip(body)
            kind = "vectorized" if _is_vector(s, plain) else "unroll"
            body = plain if whole or kind == "vectorized" else body
        made = For(s.span, s.var, start, extent, body, kind, s.step, {"tiles": True} if s.attrs.get("tiles") else {})
        if whole or kind == "vectorized":  # its iterations are in no order, so the loop synchronises with others as one
            own = not divergent and len(s.body) == 1 and isinstance(s.body[0], Store) and self._is_own(s.body[0])
            return [*first, *second, replace(unit((made,), s.span), own=own)]
        return [*first, *second, made if not inner or divergent else self._as_unit(made)]

    def _wide(self, s: For, divergent: bool) -> Unit | None:
        """A vectorised loop as one wide access; what all threads would store alike is left to the first, by the general way."""
        made = wide_copy(s, self.state)
        if made is None:
            return None
        store = s.body[0]
        assert isinstance(store, Store)
        if is_memory(store.buffer) and not divergent and not any(self.divergence.differs(i) for i in store.indices):
            return None
        return replace(unit((made,), s.span), own=not divergent and self._is_own(store))

    def _is_own(self, s: Store) -> bool:
        """Whether no other thread ever writes an element that one wrote here, in any round of the loops around."""
        if not is_memory(s.buffer) or s.buffer.view_of is not None or s.buffer.strides is not None:
            return False
        threads = [v for v, n in zip(self.state.thread_vars, self.state.extents) if n > 1]
        return bool(threads) and tells_thread(s.indices, threads, self._ranges_of_group())

    def _loop_kind(self, s: For) -> str:
        if s.kind in ("unroll", "vectorized"):
            return s.kind
        count = const_int(s.extent)
        scalar = any(isinstance(x, Store) and x.buffer.scope == FRAGMENT for x in s.body) or any(
            isinstance(x, Parallel) and any(_mentions(i, s.var) for a in fragment_accesses(x.body) for i in a.indices) for x in s.body)
        return "unroll" if scalar and count is not None and count <= _UNROLL_LIMIT else "serial"

    def _while(self, s: While, divergent: bool) -> list[Stmt]:
        inner = divergent or self.divergence.differs(s.cond)
        self.loops.append(inner)
        if self._reads_memory(s.cond):
            # The condition is a statement of its own, so that barriers can go before it in every iteration.
            before, cond = self.expression(s.cond, s, divergent)
            name = Var("bool", s.span, "goes_on", "let")
            head = (*before, unit((Let(s.span, name, cond),), s.span), If(s.span, unary("not", name), (Jump(s.span, "break"),)))
            made = While(s.span, const(True), (*head, *self.body(s.body, inner)))
        else:
            made = While(s.span, self._plain(s.cond), self.body(s.body, inner))
        self.loops.pop()
        return [made if not inner or divergent else self._as_unit(made)]

    def _as_unit(self, s: Stmt) -> Unit:
        """Code of which threads run different parts synchronises as a whole; inside, each thread keeps to its own elements."""
        check_divergent(s, self.state, self.ranges, self.divergence)
        by_hand = all(x.by_hand for x in walk_statements((s,)) if isinstance(x, Unit) and (x.reads or x.writes))
        return replace(self._told(unit(strip((s,)), s.span)), late=_written_late(s), by_hand=by_hand)

    def _told(self, u: Unit) -> Unit:
        """Noted which of the tiles it uses are used element by element by one warp each."""
        if self.state.extents[1] != 1 or self.state.extents[2] != 1:
            return u
        return replace(u, told=self.places.of(u.then, self.state.thread_vars[0], self._ranges_of_group()))

    def _ranges_of_group(self) -> Ranges:
        ranges, threads = self.ranges, [v for v, n in zip(self.state.thread_vars, self.state.extents) if n > 1]
        if self.state.role is not None and len(threads) == 1:
            ranges = ranges.copy()
            ranges.set_bounds(threads[0], self.state.role[0], self.state.role[1] - 1)
        return ranges

    def _reads_memory(self, e: Expr) -> bool:
        return any(isinstance(x, Load) and (is_memory(x.buffer) or x.buffer.scope == FRAGMENT) for x in walk_expr(e))

    def _head(self, e: Expr, s: For, divergent: bool) -> tuple[list[Stmt], Expr]:
        """A bound of a loop, read once."""
        before, value = self.expression(e, s, divergent)
        if not any(isinstance(x, (Load, Call)) for x in walk_expr(value)):
            return before, value
        name = Var(value.dtype, s.span, f"{s.var.name}_bound", "let")
        self.ranges.set_value(name, value)
        return [*before, unit((Let(s.span, name, value),), s.span)], name

    def _jump(self, s: Jump, divergent: bool) -> list[Stmt]:
        outside = s.kind == "return" or not (self.loops and self.loops[-1])
        if divergent and outside and self.uses_tiles:
            raise LoweringError(f"This {s.kind} is taken by some threads of the block only, but the code after it needs all of them (tile operations "
                                "synchronise the block). Make its condition the same for all threads.", s.span, "divergent-jump")
        return [*self.finish, s] if s.kind == "return" else [s]

    # -- scalar code ---------------------------------------------------------------------------------------------------------------
    def expression(self, e: Expr, s: Stmt, divergent: bool) -> tuple[list[Stmt], Expr]:
        """An expression evaluated by every thread; fragments spread over threads are exchanged through shared memory before."""
        if not any(isinstance(x, Load) and x.buffer.scope == FRAGMENT for x in walk_expr(e)):
            return [], self._plain(e)
        name = Var(e.dtype, e.span, "value", "let")
        loop = Parallel(s.span, (), (), (Let(s.span, name, e),))
        made = lower_parallel(loop, self.whole_block, self.state, self.ranges)
        if len(made) > 1:  # an exchange; a fragment that every thread holds needs none
            self._converged(s, divergent, "Reading a fragment")
        last = made[-1]
        assert isinstance(last, Unit)
        value = next(x.value for x in last.then if isinstance(x, Let) and x.var is name)
        return made[:-1], value

    def _plain(self, e: Expr) -> Expr:
        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Load):
                buffer, indices = self.state.shared_element(x.buffer, tuple(map_expr(i, rule) for i in x.indices))
                return Load(x.dtype, x.span, buffer, indices)
            return lower_atomic_calls(x, lambda inner: map_expr(inner, rule), self.state)

        return map_expr(e, rule)

    def _store(self, s: Store, divergent: bool) -> list[Stmt]:
        before, value = self.expression(s.value, s, divergent)
        if s.buffer.scope == FRAGMENT:
            self._converged(s, divergent, "Writing a fragment")
            return [*before, unit(self._fragment_store(s, value), s.span)]
        indices = []
        for i in s.indices:
            more, index = self.expression(i, s, divergent)
            before += more
            indices.append(index)
        buffer, place = self.state.shared_element(s.buffer, tuple(indices))
        body: Body = (Store(s.span, buffer, place, value),)
        if buffer.scope == GLOBAL or buffer.is_shared():
            body = self._by_one(body, s.indices, divergent)
        return [*before, self._told(replace(unit(body, s.span), own=not divergent and self._is_own(s), by_hand=True))]

    def _by_one(self, body: Body, indices: tuple[Expr, ...], divergent: bool) -> Body:
        """Effects that are the same for every thread are left to the first."""
        if divergent or any(self.divergence.differs(i) for i in indices) or self.state.threads == 1:
            return body
        return (If(body[0].span, binary("eq", self.state.thread, const(0)), body),)

    def _fragment_store(self, s: Store, value: Expr) -> Body:
        """The threads that hold the element store it."""
        layout = self.state.layouts[s.buffer]
        digits = LoopDigits((), self.whole_block, self.ranges)
        loop = LoopLowering(Parallel(s.span, (), (), ()), self.whole_block, self.state, digits, self.ranges)
        condition: Expr | None = None
        for d in layout.digits:
            if d.axis == THREAD and d.extent > 1:
                mine = self.state.thread // d.scale % d.extent
                wanted = self._plain(s.indices[d.dim]) // d.stride % d.extent
                one = binary("eq", mine, wanted)
                condition = one if condition is None else binary("and", condition, one)
        access = fragment_access(layout, s.indices, digits)
        place = loop._register(access, s.indices, {})
        body: Body = (Store(s.span, self.state.registers_of(s.buffer), (place,), value),)
        return body if condition is None else (If(s.span, condition, body),)

    # -- tile statements -----------------------------------------------------------------------------------------------------------
    def _parallel(self, s: Parallel) -> list[Stmt]:
        if static_extents(s) is None:
            return self._dynamic(s)
        layout = self.state.loop_layouts.get(id(s))
        assert layout is not None, "layout inference has not seen this loop"
        return lower_parallel(s, layout, self.state, self.ranges)

    def _dynamic(self, s: Parallel) -> list[Stmt]:
        """A box whose size is known when the kernel runs: its elements are numbered and dealt out in turns."""
        if fragment_accesses(s.body):
            raise LoweringError("A parallel loop with an extent that is not constant uses a fragment; fragments need constant extents.",
                                s.span, "parallel-extent")
        total: Expr = const(1)
        for e in s.extents:
            total = total * e
        threads = self.state.threads
        turn, number = Var("int32", s.span, "turn", "loop"), Var("int32", s.span, "element", "let")
        rest: Expr = number
        values: dict[Var, Expr] = {}
        for var, extent in reversed(list(zip(s.vars, s.extents))):
            values[var] = rest % extent if var is not s.vars[0] else rest
            rest = rest // extent
        digits = LoopDigits((), self.whole_block, self.ranges)
        lowering = LoopLowering(s, FragmentLayout((), (), ()), self.state, digits, self.ranges)
        lowering.layout = FragmentLayout((), (), ())
        inner = lowering.statements(s.body, values)
        body: Body = (Let(s.span, number, turn * threads + self.state.thread), If(s.span, binary("lt", number, total), inner))
        return [unit((For(s.span, turn, const(0), (total + (threads - 1)) // threads, body),), s.span)]

    def _operator(self, s: TileOp, divergent: bool) -> list[Stmt]:
        if s.op in MATRIX_OPS:
            self._converged(s, divergent, f"T.{s.op}")
            return [unit(lower_matrix_op(s, self.state), s.span)]
        if s.op == "reduce":
            self._converged(s, divergent, f"T.reduce_{s.args['kind']}")
            return lower_reduction(s, self.state)
        if s.op in ("cumsum", "cummax"):
            self._converged(s, divergent, f"T.{s.op}")
            return lower_scan(s, self.state)
        if s.op == "atomic":
            return self._atomic(s, divergent)
        return lower_operator(s, self, divergent)

    def _cp_async(self, s: Evaluate, e: Call) -> list[Stmt]:
        """T.ptx_cp_async(shared pointer, global pointer, elements[, predicate]): one asynchronous copy of this thread."""
        places: list[tuple[Buffer, tuple[Expr, ...]]] = []
        guard = self._plain(e.args[3]) if len(e.args) > 3 and isinstance(e.args[3], Expr) else None
        for pointer in e.args[:2]:
            load = pointer.args[0] if isinstance(pointer, Call) and pointer.op == "access_ptr" else None
            if isinstance(load, Select) and isinstance(load.then, Load):  # a place that may lie outside of its tensor, which reads as zeros
                inside = self._plain(load.cond)
                guard, load = inside if guard is None else binary("and", inside, guard), load.then
            if not isinstance(load, Load):
                raise LoweringError("T.ptx_cp_async takes pointers to elements (T.access_ptr).", s.span, "cp-async-width")
            places.append(self.state.shared_element(load.buffer, tuple(self._plain(i) for i in load.indices)))
        (target, _), (source, _) = places
        elements = const_int(e.args[2])
        size = (elements or 0) * dtypes.bits(target.dtype) // 8
        if target.dtype != source.dtype or not target.is_shared() or source.storage().scope != GLOBAL or not async_copy_bytes(size):
            raise LoweringError(f"T.ptx_cp_async copies 4, 8 or 16 bytes from global to shared memory in one type; here {size} bytes from {source.name} "
                                f"({source.dtype}, {source.scope}) to {target.name} ({target.dtype}, {target.scope}).", s.span, "cp-async-width")
        if self.state.target.sm < 80:
            raise LoweringError(f"T.ptx_cp_async needs sm_80 or newer; {self.state.target.name} has no such instruction.", s.span, "op-target")
        return [unit((async_copy_statement(places[0], places[1], size, guard, s.span),), s.span, asynchronous=True)]

    def _atomic(self, s: TileOp, divergent: bool) -> list[Stmt]:
        dst = s.region("dst")
        before, value = self.expression(s.args["value"], s, divergent)
        if dst.buffer.scope == FRAGMENT:
            raise LoweringError(f"T.atomic_{s.args['kind']} on the fragment {dst.buffer.name}: registers are private; use a shared or global buffer.",
                                s.span, "atomic-scope")
        place = tuple(self._plain(i) for i in dst.mins)
        buffer, place = self.state.shared_element(dst.buffer, place)
        per_thread = divergent or self.divergence.differs(s.args["value"])
        body: Body = (atomic_statement(s, buffer, place, value, self.state.target),)
        return [*before, replace(unit(self._by_one(body, dst.mins, per_thread), s.span), by_hand=True)]


def _without_unused_views(body: Body) -> Body:
    """Without names of tensors in other shapes that only tensor maps speak of: the kernel may not even know their address."""
    used = buffers_in(body)
    while more := {b.view_of for b in used if b.view_of is not None} - used:
        used |= more

    def visit(statements: Body) -> Body:
        kept = (s for s in statements if not (isinstance(s, Alloc) and s.buffer.scope == GLOBAL and s.buffer.view_of is not None and s.buffer not in used))
        return tuple(map_children(s, visit) for s in kept if not (isinstance(s, Unit) and s.then and not visit(s.then)))

    return visit(body)


def _written_late(s: Stmt) -> frozenset[Buffer]:
    """What only asynchronous copies inside write, for which nothing inside waits."""
    units = [x for x in walk_statements((s,)) if isinstance(x, Unit)]
    if any(u.waits for u in units):
        return frozenset()
    late = {b for u in units if u.asynchronous for b in u.writes}
    return frozenset(late - {b for u in units if not u.asynchronous for b in (*u.writes, *u.reads)})


def _mentions(e: Expr, var: Var) -> bool:
    return any(x is var for x in walk_expr(e))


def strip(body: Body) -> Body:
    """Units replaced by their statements."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Unit):
            out += strip(s.then)
        elif isinstance(s, Role):
            out.append(If(s.span, s.cond, strip(s.then)))
        else:
            out.append(map_children(s, strip))
    return tuple(out)


def _is_vector(s: For, body: Body) -> bool:
    """One store, unchanged data, neighbours in both places, aligned, at most 16 bytes: a wide access."""
    from ..analysis.layout import REGISTER, Digit
    from .vectors import Lanes, is_contiguous

    count = const_int(s.extent)
    if count not in (2, 4, 8, 16) or const_int(s.start) != 0 or s.step != 1 or len(body) != 1 or not isinstance(body[0], Store):
        return False
    store = body[0]
    if not isinstance(store.value, Load) or dtypes.bits(store.buffer.dtype) * count > 128:
        return False
    lanes = Lanes(Digit(0, count, 1, REGISTER, 1), count, s.var, s.var)
    places = [(store.buffer, store.indices), (store.value.buffer, store.value.indices)]
    if any(b.scope == VAR for b, _ in places):
        return False
    return all(is_contiguous(b, i, lanes, None) for b, i in places)  # type: ignore[arg-type]
