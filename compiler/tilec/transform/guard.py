"""Guards of accesses to global tensors, where staying inside cannot be proven."""
from __future__ import annotations

from dataclasses import replace

from ..analysis.bounds import Ranges
from ..analysis.guards import inside
from ..ir.buffer import GLOBAL, Buffer
from ..ir.build import binary, const, lift, select
from ..ir.expr import Binary, Call, Expr, Load, Var, equal
from ..ir.program import TileProgram
from ..ir.stmt import Body, For, If, Launch, Let, Parallel, Stmt, Store, TileOp, While
from .context import PassContext
from .rewrite import map_children, map_expr, map_own


class Guarding:
    """Walks a program knowing the ranges of its variables and the conditions it is under."""

    def __init__(self) -> None:
        self.ranges = Ranges()
        self.known: list[Expr] = []
        self.safe: dict[Buffer, Expr] = {}

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            out.append(self.statement(s))
        return tuple(out)

    def statement(self, s: Stmt) -> Stmt:
        if isinstance(s, Launch):
            self._enter_launch(s)
        if isinstance(s, Parallel):
            for var, extent in zip(s.vars, s.extents):
                self.ranges.set_extent(var, extent)
        if isinstance(s, For):
            self.ranges.set_extent(s.var, s.extent, s.start, s.step)
        if isinstance(s, If):
            return self._if(s)
        if isinstance(s, (While,)):
            return replace(s, cond=self.expression(s.cond), body=self.body(s.body))
        s = map_own(s, self._rule)
        if isinstance(s, Let):
            self.ranges.set_value(s.var, s.value)
        if isinstance(s, Store):
            return self._guarded(s, s.buffer, s.indices)
        if isinstance(s, TileOp) and s.op == "atomic":
            return self._guarded(s, s.region("dst").buffer, s.region("dst").mins)
        return map_children(s, self.body)

    def _enter_launch(self, s: Launch) -> None:
        for var, extent in zip(s.block_vars, s.grid):
            self.ranges.set_extent(var, extent)
        for var, extent in zip(s.attrs.get("thread_vars", ()), s.threads):
            self.ranges.set_extent(var, extent)
        self.safe = {b: lift(v, b.dtype) for b, v in s.attrs.get("safe_values", {}).items() if isinstance(v, (int, float, Expr))}

    def _if(self, s: If) -> If:
        cond = self.expression(s.cond)
        mark = len(self.known)
        self.known += conjuncts(cond)
        outside = self.ranges
        self.ranges = outside.copy()
        self.ranges.assume(cond)
        for part in conjuncts(cond):
            if isinstance(part, Binary) and part.op == "lt" and isinstance(part.a, Var):
                self.ranges.assume_less(part.a, part.b)
        then = self.body(s.then)
        self.ranges = outside
        del self.known[mark:]
        return replace(s, cond=cond, then=then, other=self.body(s.other))

    def _guarded(self, s: Stmt, buffer: Buffer, indices: tuple[Expr, ...]) -> Stmt:
        condition = self._condition(buffer, indices)
        return s if condition is None else If(s.span, condition, (s,))

    def _condition(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
        if buffer.scope != GLOBAL:
            return None
        condition = inside(indices, buffer.shape, self.ranges)
        if condition is None:
            return None
        left: Expr | None = None
        for part in conjuncts(condition):
            if not any(equal(part, k) for k in self.known):
                left = part if left is None else binary("and", left, part)
        return left

    def expression(self, e: Expr) -> Expr:
        return map_expr(e, self._rule)

    def _rule(self, e: Expr) -> Expr | None:
        if isinstance(e, Call) and (e.op == "address_of" or e.op.startswith("atomic_")):
            return e
        if not isinstance(e, Load) or e.buffer.scope != GLOBAL:
            return None
        load = Load(e.dtype, e.span, e.buffer, tuple(self.expression(i) for i in e.indices))
        condition = self._condition(load.buffer, load.indices)
        if condition is None:
            return load
        return select(condition, load, self.safe.get(load.buffer, const(0, load.dtype)))


def conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Binary) and e.op == "and":
        return [*conjuncts(e.a), *conjuncts(e.b)]
    return [e]


def guard_accesses(program: TileProgram, ctx: PassContext) -> TileProgram:
    guarding = Guarding()
    return replace(program, body=guarding.body(program.body))
