"""Code that names its thread, as loops over the threads of a block.

Statements that depend on the thread run once for each, the others once for the block. Such statements that follow each other share a loop, which is split
where threads meet: at synchronisation, where one reads or overwrites what others wrote, and around tile operators. A loop or branch that all threads take
alike and in which they meet stays around the loops over threads; a branch that some threads take is remembered for each thread. What a thread keeps to
itself across such a split (local arrays, variables, names) becomes an array over the threads.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...analysis.divergence import PRIVATE, Divergence
from ...ir.buffer import GLOBAL, LOCAL, VAR, Buffer, Region
from ...ir.build import binary, cast, const, const_int
from ...ir.expr import Call, Expr, Load, Var, equal, walk
from ...ir.ops import OPS
from ...ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Parallel, Stmt, Store, TileOp, While, bodies, expressions
from ...ir.stmt import walk as walk_statements
from ..errors import LoweringError
from ..rewrite import map_children, map_expr, map_own, substitute_body
from .warps import NEEDS_THREADS, exchange

_BY_THREAD = ("copy", "fill", "clear", "atomic", "dp4a", "store_slice", "store_wide")  # what a thread may do for itself
_WAITS = ("mbarrier_wait_parity", "named_barrier_arrive")


def loops_over_threads(s: Launch) -> Launch:
    """The launch without names of threads. Raises LoweringError for what only threads that run at once can do."""
    parts = {part for x in walk_statements(s.body) for e in expressions(x) for part in walk(e)}
    if not parts.intersection(s.attrs.get("thread_vars", ())) and not any(isinstance(part, Call) and part.op in NEEDS_THREADS for part in parts):
        return s
    extents = [const_int(e) for e in s.threads]
    if None in extents:
        raise LoweringError("the number of this kernel's threads is not known, and it names them; give an instance that fixes it", s.span, "cpu-threads")
    return replace(s, body=_Threads(s, [int(e) for e in extents if e is not None]).run())


class _Dependence(Divergence):
    """At the level of tiles: operators write private memory too, iterations of T.Parallel are no threads, and what follows a jump that some threads take is
    for the others."""

    def _body(self, body: Body, divergent: bool) -> None:
        for s in body:
            self._statement(s, divergent)
            divergent = divergent or (_ends_threads(s) and self.differs(s.cond))  # type: ignore[attr-defined]

    def _statement(self, s: Stmt, divergent: bool) -> None:
        if isinstance(s, Parallel):
            self._body(s.body, divergent)
        elif isinstance(s, TileOp):
            if divergent or any(self.differs(e) for e in expressions(s)) or any(b.storage() in self.tainted for b in _regions(s)):
                self.tainted.update(b.storage() for b in _written(s) if b.scope in PRIVATE)
        elif isinstance(s, (For, While)) and self._left_apart(s.body, False):
            super()._statement(s, True)
        else:
            super()._statement(s, divergent)


    def _left_apart(self, body: Body, divergent: bool) -> bool:
        """Whether some threads leave, or go on with, a loop while others do not."""
        return any(divergent if isinstance(s, Jump) else self._left_apart(inner, divergent or (isinstance(s, If) and self.differs(s.cond)))
                   for s in body for inner in (bodies(s) or ((),)))


class _Threads:
    def __init__(self, s: Launch, extents: list[int]) -> None:
        self.launch, self.extents = s, extents
        named = list(s.attrs.get("thread_vars", ()))
        self.vars: list[Var] = [*named, *(Var("int32", None, name, "thread") for name in ("tx", "ty", "tz")[len(named):])]
        self.count = extents[0] * extents[1] * extents[2]
        self.number: Expr = const(0)  # of the thread in its block
        for var, below in zip(self.vars, (1, extents[0], extents[0] * extents[1])):
            self.number = self.number + var * below
        self.arrays: list[Stmt] = []  # made for the whole block
        self.body = exchange(s.body, self.number, self.count)
        self.dependence = _Dependence(self.body, tuple(self.vars))
        self.uses: Counter[Expr] = Counter(part for x in walk_statements(self.body) for e in expressions(x) for part in walk(e) if isinstance(part, Var))
        self.kept: dict[Var, Expr] = {}  # names that outlive their loop over threads, as elements of arrays
        self.private: dict[Buffer, Buffer] = {}

    def run(self) -> Body:
        body = _Sequence(self, None, True).of(self.body)
        return (*self.arrays, *body)

    def array(self, name: str, dtype: str, shape: tuple[Expr, ...] = (), view_of: Buffer | None = None) -> Buffer:
        made = Buffer(name, (const(self.count), *shape), dtype, LOCAL, view_of=view_of)
        self.arrays.append(Alloc(self.launch.span, made))
        return made

    # -- what runs for each thread -----------------------------------------------------------------------------------
    def differs(self, s: Stmt) -> bool:
        """Whether a single statement, seen by itself, is one for each thread."""
        if isinstance(s, TileOp):
            if s.op == "atomic" and s.args.get("src") is None:
                return True  # of each thread that comes by
            return s.op in _BY_THREAD and (any(self.dependence.differs(e) for e in expressions(s)) or any(self.is_own(b) for b in _regions(s)))
        if isinstance(s, Store) and s.buffer.scope in PRIVATE:
            return self.is_own(s.buffer)
        if isinstance(s, Let):
            return s.var in self.dependence.tainted or self.dependence.differs(s.value)
        return any(self.dependence.differs(e) for e in expressions(s))

    def is_own(self, b: Buffer) -> bool:
        return b.scope in PRIVATE and b.storage() in self.dependence.tainted

    def by_threads(self, s: Stmt, some: bool) -> bool:
        """Whether all of a statement can run in a loop over threads: nobody meets anybody in it. ``some``: not all threads come by."""
        if isinstance(s, (Let, Evaluate)):
            return some or self.differs(s)
        if isinstance(s, Store):
            return (some or self.differs(s)) and not self._reads_neighbours(s)
        if isinstance(s, Alloc):
            return self.is_own(s.buffer)
        if isinstance(s, TileOp):
            return self.differs(s) or (some and s.op in ("fill", "clear", "atomic", "store_slice", "store_wide") and _is_element(s))
        if isinstance(s, (For, While, If)):
            inner = some or any(self.dependence.differs(e) for e in expressions(s))
            parts = [x for body in bodies(s) for x in body]
            return bool(parts) and all(self.by_threads(x, inner) for x in parts) and not self._meet(parts) and not _leaves(s)
        return isinstance(s, Jump) and s.kind != "return"

    def _reads_neighbours(self, s: Store) -> bool:
        """A store whose value comes from elements of the same tile that other threads store."""
        if not s.buffer.is_shared():
            return False
        return any(isinstance(x, Load) and x.buffer.storage() is s.buffer.storage() and not _same(x.indices, s.indices) for x in walk(s.value))

    def _meet(self, parts: Iterable[Stmt]) -> bool:
        """Whether some of these statements read what others write to memory that threads share."""
        touched = _Touched()
        for s in parts:
            for x in (s, *walk_statements(tuple(y for b in bodies(s) for y in b))):
                touched.add(x)
        return touched.conflicts_within()

    # -- making loops ------------------------------------------------------------------------------------------------
    def loop(self, statements: list[Stmt], mask: Buffer | None) -> Body:
        """A loop over the threads. Names that are used behind it become elements of arrays."""
        inside: Counter[Expr] = Counter(part for s in statements for x in walk_statements((s,)) for e in expressions(x) for part in walk(e) if isinstance(part, Var))
        for s in statements:
            if isinstance(s, Let) and inside[s.var] < self.uses[s.var]:
                self.kept[s.var] = Load(s.var.dtype, s.span, self.array(s.var.name, s.var.dtype), (self.number,))
        body = self.rewritten(tuple(statements))
        if not body:
            return ()
        if mask is not None:
            body = (If(statements[0].span, _holds(mask, self.number), body),)
        fresh = {v: Var(v.dtype, None, v.name, "loop") for v in self.vars}
        body = substitute_body(body, fresh)
        for var, extent in zip(self.vars, self.extents):
            body = (For(statements[0].span, fresh[var], const(0), const(extent), body),)
        return body

    def rewritten(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Alloc) and self.is_own(s.buffer):
                own = self.own(s.buffer, s)
                if s.buffer.scope == VAR and s.buffer.view_of is None:  # variables start at zero
                    out.append(Store(s.span, own, (self.number, *(const(0) for _ in s.buffer.shape)), const(0, own.dtype)))
                continue
            s = map_children(map_own(s, self._element), self.rewritten)
            if isinstance(s, Store) and self.is_own(s.buffer):
                s = replace(s, buffer=self.own(s.buffer, s), indices=(self.number, *s.indices))
            elif isinstance(s, TileOp):
                s = replace(s, args={k: self._region(v, s) if isinstance(v, Region) else v for k, v in s.args.items()})
            elif isinstance(s, Let) and s.var in self.kept:
                place = self.kept[s.var]
                assert isinstance(place, Load)
                s = Store(s.span, place.buffer, place.indices, s.value)
            out.append(s)
        return tuple(out)

    def _element(self, e: Expr) -> Expr | None:
        if isinstance(e, Load) and self.is_own(e.buffer):
            return Load(e.dtype, e.span, self.own(e.buffer, e), (self.number, *(map_expr(i, self._element) for i in e.indices)))
        return self.kept.get(e) if isinstance(e, Var) else None

    def _region(self, r: Region, s: Stmt) -> Region:
        if not self.is_own(r.buffer):
            return r
        return Region(self.own(r.buffer, s), (self.number, *r.mins), (const(1), *r.extents), "element" if r.form == "element" else "slice", r.span)

    def own(self, b: Buffer, at: Any) -> Buffer:
        """The array of all threads' copies of a private one."""
        if b not in self.private:
            if b.static_shape() is None or b.strides is not None or (b.offset is not None and const_int(b.offset) != 0):
                raise LoweringError(f"{b.name} is one array for each thread, and this view of it cannot be made for all threads at once on the CPU; "
                                    "choose a CUDA target", at.span, "cpu-threads")
            base = self.own(b.view_of, at) if b.view_of is not None else None
            self.private[b] = self.array(b.name, b.dtype, b.shape, base)
        return self.private[b]


class _Sequence:
    """The statements of one body, in order. ``mask``: which threads take part, an array over them; None: all. ``outermost``: it is the kernel's."""

    def __init__(self, threads: _Threads, mask: Buffer | None, outermost: bool = False) -> None:
        self.threads, self.mask, self.outermost = threads, mask, outermost
        self.out: list[Stmt] = []
        self.waiting: list[Stmt] = []  # for a loop over threads that they share
        self.touched = _Touched()

    def of(self, body: Body) -> Body:
        for position, s in enumerate(body):
            if self.outermost and _ends_threads(s) and self.threads.dependence.differs(s.cond):  # type: ignore[attr-defined]
                self.flush()  # the others go on
                self.branch(If(s.span, binary("eq", cast(s.cond, "int32"), const(0)), body[position + 1:]), True)  # type: ignore[attr-defined]
                return tuple(self.out)
            self.add(s)
        self.flush()
        return tuple(self.out)

    def add(self, s: Stmt) -> None:
        threads, some = self.threads, self.mask is not None
        if threads.by_threads(s, some) and not (isinstance(s, Jump) or _has_jump_out(s)):
            self.by_threads(s)
        elif isinstance(s, Store) and (some or threads.differs(s)):
            self.in_two_steps(s)
        elif isinstance(s, Let) and not any(isinstance(x, (Load, Call)) for x in walk(s.value)):
            self.out.append(s)  # the same whenever it is worked out
        elif isinstance(s, Alloc):
            self.out.append(s)
        else:
            self.flush()
            self.together(s)

    def by_threads(self, s: Stmt) -> None:
        parts = walk_statements((s,))
        if self.touched.conflict(parts):
            self.flush()
        for x in parts:
            self.touched.add(x)
        self.waiting.append(s)

    def flush(self) -> None:
        if self.waiting:
            self.out += self.threads.loop(self.waiting, self.mask)
        self.waiting, self.touched = [], _Touched()

    def in_two_steps(self, s: Store) -> None:
        """All threads read before the first one writes."""
        held = self.threads.array(f"{s.buffer.name}_new", s.value.dtype)
        self.by_threads(Store(s.span, held, (self.threads.number,), s.value))
        self.flush()
        self.by_threads(replace(s, value=Load(s.value.dtype, s.span, held, (self.threads.number,))))

    # -- what the block does together ------------------------------------------------------------------------------------
    def together(self, s: Stmt) -> None:
        differs = self.threads.dependence.differs
        if isinstance(s, If) and differs(s.cond):
            self.branch(s)
        elif isinstance(s, (For, While, If)):
            if any(differs(e) for e in expressions(s)):
                self.refuse(s, "threads go round this loop a different number of times and meet in it")
            self.out.append(map_children(s, lambda inner: _Sequence(self.threads, self.mask).of(inner)))
        elif isinstance(s, Jump) and self.mask is not None:
            self.refuse(s, f"some threads leave at this {s.kind} while the others go on to meet")
        elif isinstance(s, TileOp) and OPS[s.op].sync:
            if self.mask is not None and (s.op in _WAITS or s.args.get("barrier_id") is not None):
                self.refuse(s, "groups of threads wait for each other here, so they must run at the same time")
            self.out.append(s)
        else:
            if any(differs(e) for x in walk_statements((s,)) for e in expressions(x)) or any(self.threads.is_own(b) for b in _buffers(s)):
                self.refuse(s, "this is done by the block as a whole, but depends on the thread")
            self.out += self.once((s,))

    def once(self, body: Body) -> Body:
        """What some threads of the block start is done if there is one."""
        if self.mask is None:
            return body
        found = Buffer("any", (const(1),), "int32", LOCAL)
        zero = (const(0),)
        step = Store(None, found, zero, binary("bitor", Load("int32", None, found, zero), Load("int32", None, self.mask, (self.threads.number,))))
        span = body[0].span
        return (Alloc(span, found), Store(span, found, zero, const(0)), *self.threads.loop([step], None),
                If(span, binary("ne", Load("int32", None, found, zero), const(0)), body))

    def branch(self, s: If, outermost: bool = False) -> None:
        """Which threads take it is worked out once, before any of them changes what it depends on."""
        threads = self.threads
        branches = [(body, cond, threads.array("taken", "int32")) for body, cond in ((s.then, s.cond), (s.other, binary("eq", cast(s.cond, "int32"), const(0)))) if body]
        self.out += threads.loop([Store(s.span, mask, (threads.number,), const(0)) for _, _, mask in branches], None)
        self.out += threads.loop([Store(s.span, mask, (threads.number,), cast(cond, "int32")) for _, cond, mask in branches], self.mask)
        for body, _, mask in branches:
            self.out += _Sequence(threads, mask, outermost).of(body)

    def refuse(self, s: Stmt, why: str) -> None:
        raise LoweringError(f"{why}, which the CPU target cannot do: it runs a block's threads one after another between the places where they meet; choose a "
                            "CUDA target", s.span or self.threads.launch.span, "cpu-threads")


class _Touched:
    """What statements read and write of memory that threads share, and where."""

    def __init__(self) -> None:
        self.read: list[tuple[Buffer, tuple[Expr, ...]]] = []
        self.written: list[tuple[Buffer, tuple[Expr, ...]]] = []

    def add(self, s: Stmt) -> None:
        for e in expressions(s):
            self.read += [(x.buffer, x.indices) for x in walk(e) if isinstance(x, Load) and x.buffer.scope not in PRIVATE]
            self.written += [(x.buffer, x.indices) for c in walk(e) if isinstance(c, Call) and c.op.startswith("atomic_")
                             for x in c.args[:1] if isinstance(x, Load)]
        if isinstance(s, Store) and s.buffer.scope not in PRIVATE:
            self.written.append((s.buffer, s.indices))
        if isinstance(s, TileOp):
            for name, value in s.args.items():
                if isinstance(value, Region) and value.buffer.scope not in PRIVATE:
                    (self.written if name in OPS[s.op].writes else self.read).append((value.buffer, value.mins))

    def conflict(self, parts: Iterable[Stmt]) -> bool:
        other = _Touched()
        for s in parts:
            other.add(s)
        return _clash(self.written, other.read) or _clash(self.read, other.written) or _clash(self.written, other.written)

    def conflicts_within(self) -> bool:
        """Of shared memory: TileLang makes threads meet there, never for global memory."""
        shared = [(b, i) for b, i in self.written if b.scope != GLOBAL]
        return _clash(shared, self.read)


def _clash(one: list[tuple[Buffer, tuple[Expr, ...]]], other: list[tuple[Buffer, tuple[Expr, ...]]]) -> bool:
    return any(a.storage() is b.storage() and not (a is b and _same(i, j)) for a, i in one for b, j in other)


def _same(one: tuple[Expr, ...], other: tuple[Expr, ...]) -> bool:
    return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other))


def _holds(mask: Buffer, number: Expr) -> Expr:
    return binary("ne", Load("int32", None, mask, (number,)), const(0))


def _regions(s: TileOp) -> list[Buffer]:
    return [v.buffer for v in s.args.values() if isinstance(v, Region)]


def _written(s: TileOp) -> list[Buffer]:
    return [v.buffer for k, v in s.args.items() if isinstance(v, Region) and k in OPS[s.op].writes]


def _buffers(s: Stmt) -> list[Buffer]:
    found = []
    for x in walk_statements((s,)):
        found += _regions(x) if isinstance(x, TileOp) else [x.buffer] if isinstance(x, Store) else []
        found += [part.buffer for e in expressions(x) for part in walk(e) if isinstance(part, Load)]
    return found


def _is_element(s: TileOp) -> bool:
    return all(v.form == "element" for v in s.args.values() if isinstance(v, Region))


def _ends_threads(s: Stmt) -> bool:
    """``if condition: T.thread_return()``."""
    return isinstance(s, If) and not s.other and len(s.then) == 1 and isinstance(s.then[0], Jump) and s.then[0].kind == "return"


def _leaves(s: Stmt) -> bool:
    return any(isinstance(x, Jump) and x.kind == "return" for x in walk_statements((s,)))


def _has_jump_out(s: Stmt) -> bool:
    """Whether a statement leaves, or goes on with, a loop around it."""
    if isinstance(s, Jump):
        return True
    if isinstance(s, (For, While)):
        return False
    return any(_has_jump_out(x) for body in bodies(s) for x in body)
