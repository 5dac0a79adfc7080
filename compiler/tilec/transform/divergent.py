"""Code that some threads of a block run and others do not: no block barrier may be inside, so none may be needed."""
from __future__ import annotations

from collections.abc import Iterator

from ..analysis.bounds import Ranges
from ..analysis.divergence import PRIVATE, Divergence
from ..ir.affine import known_difference, linear
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Expr, Load, Var, equal
from ..ir.expr import walk as walk_expr
from ..ir.stmt import For, If, Let, Stmt, Store, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
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


def check_divergent(s: Stmt, state: LaunchState, ranges: Ranges, divergence: Divergence) -> None:
    """Raises LoweringError if threads exchange data through shared memory inside, with nothing that orders it."""
    if isinstance(s, If) and _one_thread(s.cond, state) and not s.other:
        return
    units = [x for x in walk_statements((s,)) if isinstance(x, Unit)]
    written = {b for u in units for b in u.writes if b.is_shared()}
    if not written or _has_synchronisation(s):
        return
    steady = _Steady(s, divergence)
    for b in written:
        touching = [u for u in units if b in u.reads or b in u.writes]
        if not any(b in u.reads for u in touching):
            continue  # what is only written, or updated atomically, needs no order here
        if len(touching) == 1 and not _in_loop(s, touching[0]):
            continue
        accesses = [a for u in touching for a in _accesses(u, b)]
        met = [pair for pair in _readers_and_writers(accesses) if not steady.apart(*pair)]
        if any(not _by_thread([*pair], state, ranges) for pair in met):
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


def _readers_and_writers(accesses: list[_Access]) -> Iterator[tuple[_Access, _Access]]:
    for w in accesses:
        if w.writes:
            yield from ((r, w) for r in accesses if not r.writes)


class _Steady:
    """What has one value for all threads as long as they are inside a statement."""

    def __init__(self, s: Stmt, divergence: Divergence) -> None:
        inner = list(walk_statements((s,)))
        self.divergence = divergence
        self.bound = {x.var for x in inner if isinstance(x, (For, Let))}
        self.changed = {x.buffer.storage() for x in inner if isinstance(x, Store)}

    def apart(self, a: _Access, b: _Access) -> bool:
        """Whether two accesses are to different elements, whichever threads make them."""
        return any(self._is(x) and self._is(y) and _differ(x, y) for x, y in zip(a.indices, b.indices))

    def _is(self, e: Expr) -> bool:
        for x in walk_expr(e):
            if isinstance(x, Call) or x in self.bound:
                return False
            if isinstance(x, Load) and (x.buffer.scope not in PRIVATE or x.buffer.storage() in self.changed):
                return False
        return not self.divergence.differs(e)


def _differ(a: Expr, b: Expr) -> bool:
    """Whether two expressions of the same values can never be equal: they are a constant apart, by addition or by exclusive or."""
    apart = known_difference(a, b)
    if apart is not None:
        return apart != 0
    (x, by), (y, other) = _flipped(a), _flipped(b)
    return by != other and equal(x, y)


def _flipped(e: Expr) -> tuple[Expr, int]:
    if isinstance(e, Binary) and e.op == "bitxor":
        for x, y in ((e.a, e.b), (e.b, e.a)):
            value = const_int(y)
            if value is not None:
                return x, value
    return e, 0


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


