"""Walking a kernel for statements that one thread could do for all: where all threads of the block, or of a group of them, come by together."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...analysis.divergence import Divergence
from ...ir.buffer import FRAGMENT, Buffer
from ...ir.expr import Call, Expr, Load
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Alloc, Body, For, If, Launch, Parallel, Role, Stmt, TileOp, While, expressions
from ...ir.stmt import walk as walk_statements
from ..context import LaunchState
from ..rewrite import map_children

_BY_SOME = "only some threads run it"


class UniformStatements:
    """``replacement`` of a tile operation is put in its place."""

    def __init__(self, launch: Launch, state: LaunchState) -> None:
        self.launch, self.state = launch, state
        self.divergence = Divergence(launch.body, state.thread_vars)
        self.safe = launch.attrs.get("safe_values", {})

    def replacement(self, s: TileOp, rest: Body, threads: int, problem: str) -> list[Stmt] | None:
        """``rest``: the statements behind it in its body. ``threads``: of the group that runs it. ``problem``: why it is not run by all of them."""
        raise NotImplementedError

    def rewritten(self) -> Body:
        return self._body(self.launch.body, False, self.state.threads)

    def _body(self, body: Body, divergent: bool, threads: int) -> Body:
        out: list[Stmt] = []
        for k, s in enumerate(body):
            made = self.replacement(s, body[k + 1:], threads, _BY_SOME if divergent else "") if isinstance(s, TileOp) else None
            if made is not None:
                out += made
            elif isinstance(s, (Parallel, TileOp)):
                out.append(s)
            else:
                inner, group = divergent or self._divides(s), s.high - s.low if isinstance(s, Role) else threads
                out.append(map_children(s, lambda b, inner=inner, group=group: self._body(b, inner, group)))  # type: ignore[misc]
        return tuple(out)

    def _divides(self, s: Stmt) -> bool:
        """Whether threads may run different parts of a statement's body."""
        if isinstance(s, For):
            return self.divergence.differs(s.start) or self.divergence.differs(s.extent)
        return isinstance(s, (If, While)) and not isinstance(s, Role) and self.divergence.differs(s.cond)

    def place_problem(self, place: Iterable[Expr]) -> str:
        """Why one thread cannot tell a place for all."""
        for e in place:
            if self.divergence.differs(e):
                return "its place depends on the thread"
            if any(isinstance(x, Load) and x.buffer.scope == FRAGMENT for x in walk_expr(e)):
                return "its place is read from a fragment"
        return ""


def handed_on(body: Body) -> Iterator[Buffer]:
    """Buffers that have views, or whose address somebody takes: their layout is not the compiler's to choose."""
    for s in walk_statements(body):
        if isinstance(s, Alloc) and s.buffer.view_of is not None:
            yield s.buffer.storage()
        for e in expressions(s):
            yield from (load.buffer.storage() for x in walk_expr(e) if isinstance(x, Call) and x.op in ("address_of", "access_ptr", "device_function")
                        for a in x.args if isinstance(a, Expr) for load in walk_expr(a) if isinstance(load, Load))
