"""Code that some threads of a block run and others do not: no block barrier may be inside, so none may be needed."""
from __future__ import annotations

from dataclasses import dataclass

from ..analysis.bounds import Ranges
from ..ir.affine import linear
from ..ir.buffer import Buffer
from ..ir.expr import Binary, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import For, If, Stmt, Store, expressions
from ..ir.stmt import walk as walk_statements
from .context import LaunchState
from .errors import LoweringError
from .guard import conjuncts
from .matrix.barrier_functions import SYNC_THREADS
from .unit import Unit, device_calls

_SYNCHRONISES = ("tile_sync", "tile_mbarrier", "tile_shuffle", "tile_cp_async_wait", "tile_fence")


@dataclass
class _Access:
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool


def check_divergent(s: Stmt, state: LaunchState, ranges: Ranges) -> None:
    """Raises LoweringError if threads exchange data through shared memory inside, with nothing that orders it."""
    if isinstance(s, If) and _one_thread(s.cond, state) and not s.other:
        return
    units = [x for x in walk_statements((s,)) if isinstance(x, Unit)]
    written = {b for u in units for b in u.writes if b.is_shared()}
    if not written or _has_synchronisation(s):
        return
    for b in written:
        touching = [u for u in units if b in u.reads or b in u.writes]
        if not any(b in u.reads for u in touching):
            continue  # what is only written, or updated atomically, needs no order here
        if len(touching) == 1 and not _in_loop(s, touching[0]):
            continue
        accesses = [a for u in touching for a in _accesses(u, b)]
        if not _by_thread(accesses, state, ranges):
            raise LoweringError(f"Threads exchange data through {b.name} in code that only some threads of the block run (it is under a condition on the "
                                "thread index). A block barrier is needed between the accesses and cannot be put there. Move the accesses out of "
                                "the condition, or let each thread use elements of its own.", s.span, "sync-divergence")


def refuse_block_barriers(s: Stmt) -> None:
    """Raises LoweringError if the code of a group of threads waits for the whole block."""
    for caller, name in device_calls(s):
        if name == SYNC_THREADS.name:
            raise LoweringError("This operation synchronises the whole block, but it is in the code of a group of threads (under a condition on the "
                                "thread index). Move it out of the condition.", caller.span or s.span, "sync-divergence")


def _one_thread(cond: Expr, state: LaunchState) -> bool:
    """Whether at most one thread passes: an equation with the index of the only row of threads."""
    if state.extents[1] != 1 or state.extents[2] != 1:
        return False
    return any(isinstance(p, Binary) and p.op == "eq" and (p.a is state.thread_vars[0] or p.b is state.thread_vars[0]) for p in conjuncts(cond))


def _has_synchronisation(s: Stmt) -> bool:
    return any(name.startswith(_SYNCHRONISES) for _, name in device_calls(s))


def _in_loop(s: Stmt, unit: Unit) -> bool:
    return any(isinstance(x, For) and any(y is unit for y in walk_statements(x.body)) for x in walk_statements((s,)))


def _accesses(unit: Unit, b: Buffer) -> list[_Access]:
    found: list[_Access] = []
    for s in walk_statements(unit.then):
        if isinstance(s, Store) and s.buffer is b:
            found.append(_Access(b, s.indices, True))
        for e in expressions(s):
            found += [_Access(b, x.indices, False) for x in walk_expr(e) if isinstance(x, Load) and x.buffer is b]
    return found


def _by_thread(accesses: list[_Access], state: LaunchState, ranges: Ranges) -> bool:
    """Whether each thread keeps to elements that no other thread touches."""
    if state.extents[1] != 1 or state.extents[2] != 1 or not accesses:
        return False
    return any(_windows([a.indices[d] for a in accesses], state.thread_vars[0], ranges) for d in range(len(accesses[0].indices)))


def _windows(indices: list[Expr], thread: Var, ranges: Ranges) -> bool:
    """All indices are ``thread * step + rest`` with rests that differ by less than the step."""
    steps: set[int] = set()
    low: int | None = None
    high: int | None = None
    for index in indices:
        terms, total = linear(index)
        step = next((f for t, f in terms if t is thread), None)
        if step is None or any(x is thread for t, _ in terms if t is not thread for x in walk_expr(t)):
            return False
        steps.add(abs(step))
        bottom = top = total
        for t, f in terms:
            if t is thread:
                continue
            a, b = ranges.bounds(t)
            if a is None or b is None:
                return False
            bottom, top = bottom + min(a * f, b * f), top + max(a * f, b * f)
        low, high = bottom if low is None else min(low, bottom), top if high is None else max(high, top)
    return len(steps) == 1 and low is not None and high is not None and high - low < steps.pop()


