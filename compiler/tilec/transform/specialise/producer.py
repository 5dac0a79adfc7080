"""The code of the warp that copies: the kernel's loops and conditions around the copies, and nothing else."""
from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import GLOBAL, Buffer
from ...ir.build import binary, const
from ...ir.expr import Call, Expr, Load, Unknown, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Body, For, If, Let, Stmt, While, expressions
from ...ir.stmt import walk as walk_statements
from .guarded import guard_of, under_guard
from .plan import LaunchPlan
from .rings import Place, Ring, Single, fill, wait

_EVERYWHERE_THE_SAME = ("block", "dynamic", "const", "param")  # kinds of variables


class NotSeparable(Exception):
    """The copying warp cannot know what the kernel's control flow depends on; the text says on what."""


class Producer:
    def __init__(self, plan: LaunchPlan, rings: dict[int, list[Ring]], places: dict[int, Place], single: dict[int, Single], written: set[Buffer]) -> None:
        self.plan, self.rings, self.places, self.single, self.written = plan, rings, places, single, written
        self.known: set[Var] = set()

    def body(self, body: Body) -> Body:
        """Raises NotSeparable."""
        out: list[Stmt] = []
        for s in body:
            if id(s) in self.plan.loops:
                assert isinstance(s, For)
                out.append(self._pipelined(s))
            elif id(s) in self.single:
                self._require(s, "the place of a copy")
                out += self.single[id(s)].produce()
            elif isinstance(s, Let):
                if self._knows(s.value):
                    self.known.add(s.var)
                    out.append(s)
            elif any(id(x) in self.plan.loops for x in walk_statements((s,))):
                out.append(self._around(s))
        return _needed(tuple(out))

    def _around(self, s: Stmt) -> Stmt:
        if not isinstance(s, (For, While, If)):
            raise NotSeparable("the loop is inside another tile statement")
        self._require(s, "the control flow around the loop")
        if isinstance(s, If):
            return replace(s, then=self.body(s.then), other=self.body(s.other))
        if isinstance(s, For):
            self.known.add(s.var)
        return replace(s, body=self.body(s.body))

    def _pipelined(self, s: For) -> For:
        plan, place = self.plan.loops[id(s)], self.places[id(s)]
        self._require(s, "the number of iterations")
        self.known.add(s.var)
        guard = guard_of(s)
        if guard is not None and not self._knows(guard):
            raise NotSeparable("which iterations run depends on what other threads compute")
        body: list[Stmt] = [*place.enter()]
        for ring in self.rings[id(s)]:
            for op in ring.group.copies:
                self._require(op, "the place of a copy")
            body.append(wait(ring.empty, place.now, binary("bitxor", place.parity, const(1)), plan.loop.span))
            body.append(fill(ring.group.copies, ring.full, place.now, ring.tiles, plan.loop.span))
        body += place.advance()
        return replace(s, kind="serial", body=under_guard(s, tuple(body)), attrs={})

    def _require(self, s: Stmt, what: str) -> None:
        if not all(self._knows(e) for e in expressions(s)):
            raise NotSeparable(f"{what} depends on what other threads compute")

    def _knows(self, e: Expr) -> bool:
        """Whether the copying warp can compute a value by itself."""
        for x in walk_expr(e):
            if isinstance(x, Unknown) or (isinstance(x, Var) and x.kind not in _EVERYWHERE_THE_SAME and x not in self.known):
                return False
            if isinstance(x, Load) and (x.buffer.storage().scope != GLOBAL or x.buffer.storage() in self.written):
                return False
            if isinstance(x, Call) and (x.op.startswith("atomic_") or "thread" in x.op or "lane" in x.op or "warp" in x.op):
                return False
        return True


def _needed(body: Body) -> Body:
    """Without names that nothing uses."""
    used: set[Var] = set()
    out: list[Stmt] = []
    for s in reversed(body):
        if isinstance(s, Let) and s.var not in used:
            continue
        out.append(s)
        used.update(x for inner in walk_statements((s,)) for e in expressions(inner) for x in walk_expr(e) if isinstance(x, Var))
    return tuple(reversed(out))

