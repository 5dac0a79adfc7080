"""Copies, fills and atomics of tiles that are another tile for each thread: from a thread's own array, or at a place that depends on the thread."""
from __future__ import annotations

from collections.abc import Iterator

from ..analysis.divergence import PRIVATE, Divergence
from ..ir.buffer import FRAGMENT, Buffer, Region
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Body, Launch, Parallel, Role, Stmt, Store, TileOp, bodies, expressions
from ..ir.stmt import walk as walk_statements
from .context import LaunchState


def find_own_copies(s: Launch, state: LaunchState) -> None:
    """Notes the loops of such operations in ``state.each_thread``: every thread runs them in full. Groups of threads have tiles of their own."""
    loops = list(_loops(s.body, False))
    if not loops:
        return
    threads = set(state.thread_vars)
    indexed = any(isinstance(x, Var) and x in threads for y in walk_statements(s.body) for e in expressions(y) for x in walk_expr(e))
    divergence = Divergence(s.body, state.thread_vars) if indexed else None
    for loop, in_role in loops:
        places = list(_places(loop))
        if any(b.scope == FRAGMENT for b, _ in places):
            continue
        written = {b for s in walk_statements(loop.body) for b, _ in _written(s)}
        own = any(b.scope in PRIVATE and not _is_result(b, written) and any(x in loop.vars for i in indices for x in walk_expr(i)) for b, indices in places)
        moved = divergence is not None and not in_role and any(_differs(i, loop, divergence) for _, indices in places for i in indices)
        if own or moved:
            state.each_thread.add(id(loop))
            state.keep.append(loop)


def _is_result(b: Buffer, written: set[Buffer]) -> bool:
    """Whether a loop reads a finished reducer, of which all threads hold the same."""
    return "reducer_op" in b.attrs and b not in written


def _loops(body: Body, in_role: bool) -> Iterator[tuple[Parallel, bool]]:
    for s in body:
        if isinstance(s, Parallel):
            if s.attrs.get("tile_op"):
                yield s, in_role
            continue
        for nested in bodies(s):
            yield from _loops(nested, in_role or isinstance(s, Role))


def _places(loop: Parallel) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """What a loop accesses."""
    for s in walk_statements(loop.body):
        yield from _written(s)
        for e in expressions(s):
            yield from ((x.buffer, x.indices) for x in walk_expr(e) if isinstance(x, Load))


def _written(s: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    if isinstance(s, Store):
        yield s.buffer, s.indices
    if isinstance(s, TileOp):
        yield from ((r.buffer, r.mins) for r in s.args.values() if isinstance(r, Region))


def _differs(index: Expr, loop: Parallel, divergence: Divergence) -> bool:
    """Whether an index depends on the thread by more than the loop's own variables, which the divergence takes for different in each."""
    own = set(loop.vars)
    for x in walk_expr(index):
        if x in own:
            continue
        if isinstance(x, (Var, Load)) and divergence.differs(x):
            return True
    return False
