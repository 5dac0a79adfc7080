"""Parallel loops over extents known only at run time, around tiles in registers."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..ir.buffer import FRAGMENT, Region
from ..ir.build import const, const_int
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import For, Parallel, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements


def repeated_tiles(s: Parallel) -> Stmt:
    """A loop over tiles, where variables of unknown extents have no part in what is accessed of fragments: each of those tiles is laid
    out over the threads as any other, and the rest of the loop goes from one to the next. Other loops are left as they are."""
    loose = [(v, e) for v, e in zip(s.vars, s.extents) if const_int(e) is None]
    places = list(_fragment_indices(s))
    names = {v for v, _ in loose}
    if not loose or not places or any(isinstance(x, Var) and x in names for e in places for x in walk_expr(e)):
        return s
    fixed = [(v, e) for v, e in zip(s.vars, s.extents) if v not in names]
    body: tuple[Stmt, ...] = s.body
    if fixed:
        body = (replace(s, vars=tuple(v for v, _ in fixed), extents=tuple(e for _, e in fixed)),)
    for var, extent in reversed(loose):
        body = (For(s.span, var, const(0), extent, body, "serial"),)
    return body[0]


def _fragment_indices(s: Parallel) -> Iterator[Expr]:
    for x in walk_statements(s.body):
        if isinstance(x, Store) and x.buffer.scope == FRAGMENT:
            yield from x.indices
        if isinstance(x, TileOp):
            yield from (i for r in x.args.values() if isinstance(r, Region) and r.buffer.scope == FRAGMENT for i in r.mins)
        for e in expressions(x):
            for part in walk_expr(e):
                if isinstance(part, Load) and part.buffer.scope == FRAGMENT:
                    yield from part.indices
