"""Reducers (T.alloc_reducer): every thread keeps partial results of its own, which the end of the reduction combines.

On a GPU: registers, then the lanes of a warp, then warps through shared memory. On the CPU a block is one thread.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.buffer import LOCAL, REDUCER, Buffer, Region, index_at, tile_axes, whole
from ..ir.build import binary, cast, const, const_int
from ..ir.expr import Expr, Load, Var
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Launch, Let, Parallel, Stmt, Store, TileOp
from ..ir.stmt import walk as walk_statements
from ..source.span import Span
from .context import LaunchState, PassContext
from .cpu.reduce import accumulator_dtype, combine, identity
from .errors import LoweringError
from .rewrite import map_children, map_expr, map_own
from .unit import unit
from .warp import shuffle_xor

WARP = 32


def open_reducers(program: TileProgram, ctx: PassContext) -> TileProgram:
    body: list[Stmt] = []
    for number, s in enumerate(program.body):
        used = isinstance(s, Launch) and any(isinstance(x, Alloc) and x.buffer.scope == REDUCER for x in walk_statements(s.body))
        if used:
            assert isinstance(s, Launch)
            state = ctx.state(number, s) if ctx.target.kind == "cuda" else None
            s = replace(s, body=_Reducers(ctx, state).body(s.body))
        body.append(s)
    return replace(program, body=tuple(body))


class _Reducers:
    """The reducers of one kernel. ``state`` None: the CPU."""

    def __init__(self, ctx: PassContext, state: LaunchState | None) -> None:
        self.ctx, self.state = ctx, state
        self.partial: dict[Buffer, Buffer] = {}  # reducer -> this thread's partial results
        self.start: dict[Buffer, Var] = {}  # reducer -> the value given to T.reducer_init

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            out += self.statement(s)
        return tuple(out)

    def statement(self, s: Stmt) -> Body:
        if isinstance(s, Alloc) and s.buffer.scope == REDUCER:
            return self._alloc(s)
        if isinstance(s, TileOp):
            handler: dict[str, Callable[[TileOp], Body]] = {"reducer_init": self._init, "reducer_update": self._update, "finalize_reducer": self._finish}
            if s.op in handler:
                return handler[s.op](s)
        if isinstance(s, Parallel):
            return (self._parallel(s),)
        s = map_children(map_own(s, self._load), self.body)
        if isinstance(s, Store) and s.buffer in self.partial:
            part = self.partial[s.buffer]
            s = replace(s, buffer=part, value=cast(s.value, part.dtype))
        elif isinstance(s, TileOp):
            s = replace(s, args={k: self._region(v) if isinstance(v, Region) else v for k, v in s.args.items()})
        return (s,)

    def _parallel(self, s: Parallel) -> Stmt:
        """A loop with updates runs each iteration once, however many threads would otherwise share it."""
        updates = any((isinstance(x, TileOp) and x.op == "reducer_update") or (isinstance(x, Store) and x.buffer in self.partial)
                      for x in walk_statements(s.body))
        made = map_children(map_own(s, self._load), self.body)
        assert isinstance(made, Parallel)
        return replace(made, attrs={**made.attrs, "accumulates": True}) if updates else made

    def _load(self, e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in self.partial:
            part = self.partial[e.buffer]
            return cast(Load(part.dtype, e.span, part, tuple(map_expr(i, self._load) for i in e.indices)), e.dtype)
        return None

    def _region(self, r: Region) -> Region:
        return Region(self.partial[r.buffer], r.mins, r.extents, r.form, r.span) if r.buffer in self.partial else r

    # -- the four operations ---------------------------------------------------------------------------------------------------
    def _alloc(self, s: Alloc) -> Body:
        old = s.buffer
        # Narrow floats are combined in float32 and rounded once. (ptxas 13.0 also stores single bytes of a 16-bit float in a local array as
        # if they were whole numbers, where the compiler addresses the array in bytes.)
        self.partial[old] = Buffer(self.ctx.fresh(old.name), old.shape, accumulator_dtype(old.dtype), LOCAL, old.span, attrs={"align": 16, **old.attrs})
        return (Alloc(s.span, self.partial[old]),)

    def _init(self, s: TileOp) -> Body:
        reducer = s.region("reducer").buffer
        part, kind = self.partial[reducer], str(reducer.attrs["reducer_op"])
        clear = each(s.span, part.shape, lambda i: (Store(s.span, part, i, const(identity(kind, part.dtype), part.dtype)),))
        value = s.args.get("value")
        if value is None:
            self.start.pop(reducer, None)
            return clear
        self.start[reducer] = Var(part.dtype, s.span, self.ctx.fresh(f"{reducer.name}_start"), "let")
        return (Let(s.span, self.start[reducer], cast(map_expr(value, self._load), part.dtype)), *clear)

    def _update(self, s: TileOp) -> Body:
        target = s.region("target")
        part, kind = self.partial.get(target.buffer), str(target.buffer.attrs.get("reducer_op"))
        if part is None or tile_axes(target):
            raise LoweringError("T.reducer_update combines one value into one element of a reducer.", s.span, "reducer-epoch")
        value = map_expr(s.args["value"], self._load)
        place = tuple(map_expr(m, self._load) for m in target.mins)
        return (Store(s.span, part, place, combine(kind, Load(part.dtype, s.span, part, place), cast(value, part.dtype))),)

    def _finish(self, s: TileOp) -> Body:
        reducer = s.region("reducer").buffer
        part, kind = self.partial[reducer], str(reducer.attrs["reducer_op"])
        before, total = self._collected(s, part, kind)
        start = self.start.get(reducer)

        def result(i: tuple[Expr, ...]) -> Expr:
            return total(i) if start is None else combine(kind, start, total(i))

        dst = s.args.get("dst")
        if dst is None:  # in place: every thread gets the whole result
            return (*before, *each(s.span, part.shape, lambda i: (Store(s.span, part, i, result(i)),)))
        assert isinstance(dst, Region)
        return (*before, self._write(s, dst, part, result))

    def _write(self, s: TileOp, dst: Region, part: Buffer, result: Callable[[tuple[Expr, ...]], Expr]) -> Stmt:
        variables = tuple(Var("int32", s.span, "ijkl"[k % 4], "loop") for k in range(len(part.shape)))
        place = index_at(dst, tuple(v for v, extent in zip(variables, part.shape) if const_int(extent) != 1) if tile_axes(dst) else ())
        value = result(variables)
        if s.args.get("onto"):  # what the destination holds takes part
            value = combine(str(s.region("reducer").buffer.attrs["reducer_op"]), cast(Load(dst.dtype, s.span, dst.buffer, place), value.dtype), value)
        return Parallel(s.span, variables, part.shape, (Store(s.span, dst.buffer, place, cast(value, dst.dtype)),))

    # -- across threads --------------------------------------------------------------------------------------------------------
    def _collected(self, s: TileOp, part: Buffer, kind: str) -> tuple[Body, Callable[[tuple[Expr, ...]], Expr]]:
        """Statements after which the value of an element is the expression given."""
        if self.state is None:
            return (), lambda i: Load(part.dtype, s.span, part, i)
        threads = self.state.threads
        rows = threads // WARP if threads % WARP == 0 else threads
        shape = part.static_shape()
        assert shape is not None
        shared = self.state.temporary_shared(part.name, (rows, *shape), part.dtype, s.span)
        collect = TileOp(s.span, "collect_partial", {"src": whole(part), "dst": whole(shared), "kind": kind})

        def total(i: tuple[Expr, ...]) -> Expr:
            value: Expr = Load(part.dtype, s.span, shared, (const(0), *i))
            for r in range(1, rows):
                value = combine(kind, value, Load(part.dtype, s.span, shared, (const(r), *i)))
            return value

        return (Alloc(s.span, shared), collect), total


def each(span: Span | None, shape: tuple[Expr, ...], make: Callable[[tuple[Expr, ...]], Body]) -> Body:
    """A loop over elements, which are registers where it is unrolled."""
    variables = tuple(Var("int32", span, f"e{k}", "loop") for k in range(len(shape)))
    body = make(variables)
    for var, extent in reversed(list(zip(variables, shape))):
        body = (For(span, var, const(0), extent, body, "unroll"),)
    return body


def lower_collection(op: TileOp, state: LaunchState) -> list[Stmt]:
    """Partial results of all threads to shared memory: one row a warp, after its lanes have combined theirs; else one row a thread."""
    part, shared, kind = op.region("src").buffer, op.region("dst").buffer, op.args["kind"]

    def exchange(i: tuple[Expr, ...]) -> Body:
        mine = Load(part.dtype, op.span, part, i)
        return tuple(Store(op.span, part, i, combine(kind, mine, shuffle_xor(mine, offset))) for offset in (16, 8, 4, 2, 1))

    def write(row: Expr) -> Body:
        return each(op.span, part.shape, lambda i: (Store(op.span, shared, (row, *i), Load(part.dtype, op.span, part, i)),))

    if state.threads % WARP:
        return [unit(write(state.thread), op.span)]
    first = If(op.span, binary("eq", state.thread % WARP, const(0)), write(state.thread // WARP))
    return [unit((*each(op.span, part.shape, exchange), first), op.span)]
