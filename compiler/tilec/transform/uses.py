"""Which buffers statements use."""
from __future__ import annotations

from ..ir.buffer import Buffer, Region
from ..ir.expr import Load
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Body, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements


def buffers_of(s: Stmt) -> set[Buffer]:
    """What a statement itself (not what is nested in it) stores to, loads from or hands to a tile operation."""
    found = {s.buffer} if isinstance(s, Store) else set()
    if isinstance(s, TileOp):
        found.update(v.buffer for v in s.args.values() if isinstance(v, Region))
    for e in expressions(s):
        found.update(x.buffer for x in walk_expr(e) if isinstance(x, Load))
    return found


def buffers_in(body: Body) -> set[Buffer]:
    """The same of all statements of a body and of those nested in them."""
    return {b for s in walk_statements(body) for b in buffers_of(s)}
