"""What the threads of one block do with barriers and shared tiles, step by step: block 0, loops of known length, roles by thread index.

PTX ISA, mbarrier: a phase completes with the expected arrivals; after n completed phases the wait for parity p passes if n % 2 != p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from ..ir.buffer import BARRIER, CLUSTER_BARRIER, VAR, Buffer, Region
from ..ir.build import const_int
from ..ir.evaluate_int import evaluate
from ..ir.expr import Const, Expr, Var, walk
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Launch, Let, Stmt, Store, TileOp, While, bodies
from ..ir.stmt import walk as statements
from ..records import dataclass

MOST_STEPS = 1200  # of a role; longer runs are cut there
WAIT, ARRIVE, WRITE, READ, SYNC = "wait", "arrive", "write", "read", "sync"
Key = tuple[Buffer, Any]


class Unclear(Exception):
    """What the threads do is not known for certain."""


@dataclass(slots=True)
class Step:
    """``key``: a barrier and its index, or a shared tile and the corner of the part; ``value``: the parity, or the arrivals."""

    kind: str
    stmt: Stmt
    key: Key | None
    value: int = 0


@dataclass(slots=True)
class Role:
    threads: int
    steps: list[Step] = field(default_factory=list)
    cut: bool = False  # there would be more steps


def roles_of(launch: Launch, tiles: set[Buffer]) -> list[Role]:
    """The threads that take the same branches, with their steps; uses of ``tiles`` count. Raises Unclear."""
    threads = [const_int(t) for t in launch.threads]
    if threads[0] is None or threads[1:] != [1, 1] or not 0 < threads[0] <= 1024:
        raise Unclear
    relevant = {id(s) for s in statements(launch.body) if _matters(s, tiles)}
    if any(isinstance(s, (While, Jump, Evaluate)) for s in statements(launch.body)):
        raise Unclear
    tx = launch.attrs.get("thread_vars", (None,))[0]
    conditions = [s.cond for s in statements(launch.body) if isinstance(s, If) and id(s) in relevant and _mentions(s.cond, tx)]
    groups: dict[tuple[bool, ...], list[int]] = {}
    for t in range(threads[0]):
        groups.setdefault(tuple(bool(_number(c, {tx: t})) for c in conditions), []).append(t)
    if len(groups) > 8:
        raise Unclear
    found = []
    for members in groups.values():
        role = Role(len(members))
        walker = _Walker(dict.fromkeys(launch.block_vars, 0), {tx: members[0]}, role.threads, relevant, tiles)
        for step in walker.body(launch.body):
            role.steps.append(step)
            if len(role.steps) >= MOST_STEPS:
                role.cut = True
                break
        found.append(role)
    return found


def _mentions(e: Expr, tx: Var | None) -> bool:
    return any(x is tx for x in walk(e))


def _matters(s: Stmt, tiles: set[Buffer]) -> bool:
    """Whether a statement, or one inside it, is a step or sets a variable that steps depend on."""
    if isinstance(s, (If, For)):
        return any(_matters(x, tiles) for body in bodies(s) for x in body)
    if isinstance(s, Store):
        return s.buffer.scope == VAR
    if isinstance(s, TileOp):
        return s.op == "sync_threads" or any(
            isinstance(v, Region) and (v.buffer.scope in (BARRIER, CLUSTER_BARRIER) or v.buffer.storage() in tiles) for v in s.args.values()
        )
    return isinstance(s, Let)


def _number(e: Any, values: dict[Any, Any]) -> Any:
    """The value of a scalar; loads are of variables (T.alloc_var). Raises Unclear."""
    try:
        return e.value if e.__class__ is Const else evaluate(e, values)
    except (KeyError, ValueError, ZeroDivisionError, TypeError):
        raise Unclear from None


def _integer(e: Any, values: dict[Any, Any]) -> int:
    """Raises Unclear for what is no integer: a parity, a count and a place are told elsewhere if they are wrong."""
    value = _number(e, values)
    if not isinstance(value, int):
        raise Unclear
    return value


@dataclass
class _Walker:
    """``values`` are the same for all threads of the role: what depends on the index of one is Unclear. Conditions on it alone are
    what makes the role, and are told by ``member``, any of its threads."""

    values: dict[Any, Any]
    member: dict[Any, int]
    threads: int
    relevant: set[int]
    tiles: set[Buffer]

    def body(self, body: Body) -> Iterator[Step]:
        for s in body:
            if id(s) in self.relevant:
                yield from self._statement(s)
            elif isinstance(s, Alloc) and s.buffer.scope == VAR:
                self.values.pop(s.buffer, None)

    def _statement(self, s: Stmt) -> Iterator[Step]:
        values = self.values
        if isinstance(s, Let):
            _set(values, s.var, s.value)
        elif isinstance(s, Store):
            _set(values, s.buffer, s.value)
        elif isinstance(s, If):
            by_thread = any(_mentions(s.cond, tx) for tx in self.member)
            yield from self.body(s.then if _number(s.cond, self.member if by_thread else values) else s.other)
        elif isinstance(s, For):
            if s.attrs.get("order") or s.attrs.get("stage"):
                raise Unclear
            start, extent = _integer(s.start, values), _integer(s.extent, values)
            for k in range(extent):
                values[s.var] = start + k * s.step
                yield from self.body(s.body)
        elif isinstance(s, TileOp):
            yield from _of_operator(s, values, self.threads, self.tiles)
        else:
            raise Unclear


def _set(values: dict[Any, Any], name: Any, e: Any) -> None:
    try:
        values[name] = _number(e, values)
    except Unclear:
        values.pop(name, None)


def _of_operator(s: TileOp, values: dict[Any, Any], threads: int, tiles: set[Buffer]) -> Iterator[Step]:
    if s.op == "sync_threads":
        if s.args.get("barrier_id") is not None or s.args.get("arrive_count") is not None:
            raise Unclear
        yield Step(SYNC, s, None)
        return
    for kind, names in ((READ, ("src", "A", "B")), (WRITE, ("dst",))):
        for n in names:
            r = s.args.get(n)
            if isinstance(r, Region) and r.buffer.storage() in tiles:
                yield Step(kind, s, (r.buffer.storage(), () if r.form == "whole" else tuple(_integer(m, values) for m in r.mins)))
    used = [(n, r) for n, r in s.args.items() if isinstance(r, Region) and r.buffer.scope in (BARRIER, CLUSTER_BARRIER)]
    for name, r in used:
        if r.buffer.scope == CLUSTER_BARRIER:
            raise Unclear
        index = 0 if r.form == "whole" else _integer(r.mins[0], values)
        key = (r.buffer.storage(), index)
        if s.op == "mbarrier_wait_parity" and name == "mbar":
            yield Step(WAIT, s, key, _integer(s.args.get("parity"), values))
        elif s.op == "mbarrier_arrive" and name == "mbar" and s.args.get("cta_id") is None:
            yield Step(ARRIVE, s, key, threads * _integer(s.args.get("count", 1), values))
        elif s.op == "tcgen05_gemm" and name == "mbar" and not s.args.get("use_2cta"):
            yield Step(ARRIVE, s, key, 1)
        elif not (s.op == "tma_copy" and name == "barrier"):
            raise Unclear


@dataclass
class Run:
    """One order in which the roles take their steps. ``first``: this role goes on whenever it can."""

    roles: list[Role]
    counts: Callable[[Key], int | None]
    first: int | None = None
    flipped: Stmt | None = None  # this wait awaits the other parity
    at: list[int] = field(default_factory=list)
    completed: dict[Key, int] = field(default_factory=dict)
    pending: dict[Key, int] = field(default_factory=dict)
    overrun: list[Step] = field(default_factory=list)  # arrivals that complete several phases at once
    seen: Callable[[Run, int, Step], bool] | None = None  # told of every step; True ends the run

    def execute(self) -> list[int]:
        """The roles that are stuck at the end: none if all came to their end, or were cut off."""
        self.at = [0] * len(self.roles)
        while True:
            order = [r for r in range(len(self.roles)) if not self.ended(r)]
            if self.first is not None:
                order.sort(key=lambda r: r != self.first)
            moved = False
            for r in order:
                while self._step(r):
                    moved = True
                    if self.seen is not None and self.seen(self, r, self.roles[r].steps[self.at[r] - 1]):
                        return []
                    if r != self.first:
                        break
                if moved and self.first is not None:
                    break
            if not moved and not self._meet():
                stuck = [r for r in range(len(self.roles)) if not self.ended(r)]
                return [] if any(role.cut and self.ended(r) for r, role in enumerate(self.roles)) else stuck

    def ended(self, r: int) -> bool:
        return self.at[r] >= len(self.roles[r].steps)

    def current(self, r: int) -> Step:
        return self.roles[r].steps[self.at[r]]

    def _step(self, r: int) -> bool:
        if self.ended(r):
            return False
        step = self.current(r)
        if step.kind == SYNC:
            return False
        if step.kind == WAIT:
            assert step.key is not None
            parity = step.value ^ (1 if step.stmt is self.flipped else 0)
            if self.completed.get(step.key, 0) % 2 == parity:
                return False
        elif step.kind == ARRIVE:
            self._arrive(step)
        self.at[r] += 1
        return True

    def _arrive(self, step: Step) -> None:
        key = step.key
        assert key is not None
        expected = self.counts(key)
        if expected is None or expected < 1:
            raise Unclear
        total = self.pending.get(key, 0) + step.value
        if total // expected > 1:
            self.overrun.append(step)
        self.completed[key] = self.completed.get(key, 0) + total // expected
        self.pending[key] = total % expected

    def _meet(self) -> bool:
        """All roles that have not ended stand at a block-wide barrier."""
        waiting = [r for r in range(len(self.roles)) if not self.ended(r)]
        if not waiting or any(self.current(r).kind != SYNC for r in waiting):
            return False
        for r in waiting:
            self.at[r] += 1
        return True
