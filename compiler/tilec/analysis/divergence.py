"""Which scalar values may differ between the threads of a block."""
from __future__ import annotations

from typing import Any

from ..ir.expr import Call, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, For, If, Let, Parallel, Role, Stmt, Store, While, bodies, expressions
from ..ir.stmt import walk as walk_statements

PRIVATE = ("local", "local.var")


class Divergence:
    """Names and private buffers that depend on the thread index, found to a fixed point."""

    def __init__(self, body: Body, thread_vars: tuple[Var, ...]) -> None:
        self.tainted: set[Any] = set(thread_vars)
        size = -1
        while size != len(self.tainted):
            size = len(self.tainted)
            self._body(body, False)

    def differs(self, e: Expr) -> bool:
        for x in walk_expr(e):
            if x in self.tainted or (isinstance(x, Load) and x.buffer.storage() in self.tainted):
                return True
            if isinstance(x, Call) and (x.op.startswith("atomic_") or (x.attrs or {}).get("external")):
                return True
        return False

    def _body(self, body: Body, divergent: bool) -> None:
        for s in body:
            self._statement(s, divergent)

    def _statement(self, s: Stmt, divergent: bool) -> None:
        inner = divergent
        self._called(s)
        if isinstance(s, Let) and (divergent or self.differs(s.value)):
            self.tainted.add(s.var)
        elif isinstance(s, Store) and s.buffer.scope in PRIVATE:
            if divergent or self.differs(s.value) or any(self.differs(i) for i in s.indices):
                self.tainted.add(s.buffer.storage())
        elif isinstance(s, For):
            inner = divergent or self.differs(s.start) or self.differs(s.extent)
            if inner:
                self.tainted.add(s.var)
        elif isinstance(s, Role):  # the same for all threads of the group
            self._left_behind(s)
        elif isinstance(s, (If, While)):
            inner = divergent or self.differs(s.cond)
        elif isinstance(s, Parallel):
            inner = True
        elif isinstance(s, Alloc):
            return
        for nested in bodies(s):
            self._body(nested, inner)

    def _called(self, s: Stmt) -> None:
        """Functions written in C may leave something else behind for each thread."""
        for e in expressions(s):
            for x in walk_expr(e):
                attrs = (x.attrs or {}) if isinstance(x, Call) else {}
                if attrs.get("external"):
                    self.tainted.update(x.args[k].args[0].buffer.storage() for k in attrs["writes"])  # type: ignore[attr-defined]

    def _left_behind(self, s: If) -> None:
        """Private memory that a group writes and others may read."""
        own = {x.buffer for x in walk_statements(s.then) if isinstance(x, Alloc)}
        self.tainted.update(x.buffer.storage() for x in walk_statements(s.then)
                            if isinstance(x, Store) and x.buffer.scope in PRIVATE and x.buffer not in own)
