"""Block barriers between units that exchange data through memory."""
from __future__ import annotations

from dataclasses import field, fields, replace

from ..ir.buffer import GLOBAL, Buffer
from ..ir.program import TileProgram
from ..ir.stmt import Body, For, If, Jump, Launch, Role, Stmt, While
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .configs import NO_THREAD_SYNC, is_set
from .context import PassContext
from .matrix.barrier_functions import SYNC_THREADS, SYNC_WARP, group_barriers, role_barrier
from .threads import strip
from .unit import Accesses, Unit, device_calls

Told = frozenset[tuple[Buffer, int]]


@dataclass
class Pending:
    """What the block has accessed since its last barrier; ``arriving``: asynchronous writes nobody has waited for.

    ``own_writes``: by units of which each thread keeps to elements of its own, with the unit's id.
    ``group_reads``, ``group_writes``: by groups of threads whose order with other groups mbarriers keep.
    ``told_reads``, ``told_writes``: at places that tell the warp (``Unit.told``); ``recent``: those since the threads of the warps last met.
    ``hand_reads``, ``hand_writes``: by single threads, where the program says that it orders those itself.
    """

    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)
    arriving: set[Buffer] = field(default_factory=set)
    group_reads: set[Buffer] = field(default_factory=set)
    group_writes: set[Buffer] = field(default_factory=set)
    own_writes: set[tuple[Buffer, int]] = field(default_factory=set)
    told_reads: set[tuple[Buffer, int]] = field(default_factory=set)
    told_writes: set[tuple[Buffer, int]] = field(default_factory=set)
    recent_reads: set[tuple[Buffer, int]] = field(default_factory=set)
    recent_writes: set[tuple[Buffer, int]] = field(default_factory=set)
    hand_reads: set[Buffer] = field(default_factory=set)
    hand_writes: set[Buffer] = field(default_factory=set)

    def _sets(self) -> list[set]:
        return [getattr(self, f.name) for f in fields(self)]

    def copy(self) -> Pending:
        return Pending(*map(set, self._sets()))

    def take(self, other: Pending) -> None:
        for mine, theirs in zip(self._sets(), other.copy()._sets()):
            mine.clear()
            mine.update(theirs)

    def merge(self, other: Pending) -> None:
        for mine, theirs in zip(self._sets(), other._sets()):
            mine |= theirs

    def size(self) -> int:
        return sum(map(len, self._sets()))

    def written(self, but: int = 0) -> set[Buffer]:
        """What the block has written; ``but``: the id of a unit whose own writes do not count."""
        return self.writes | {b for b, writer in self.own_writes if writer != but}

    def forget_tensors(self) -> None:
        """Tiles of the grid are in no order: what one did to tensors the next need not wait for."""
        for s in (self.reads, self.writes, self.group_reads, self.group_writes, self.hand_reads, self.hand_writes):
            s -= {b for b in s if b.scope == GLOBAL}
        self.own_writes = {(b, writer) for b, writer in self.own_writes if b.scope != GLOBAL}

    def clear(self) -> None:
        """The block has met."""
        for s in self._sets():
            if s is not self.arriving:
                s.clear()

    def warps_met(self) -> None:
        self.recent_reads.clear()
        self.recent_writes.clear()


def overlap(a: Buffer, b: Buffer) -> bool:
    """Whether two buffers may share bytes."""
    if a is b or a.storage() is b.storage():
        return True
    if a.scope == GLOBAL or b.scope == GLOBAL:
        return False
    x, y = a.attrs.get("byte_offset"), b.attrs.get("byte_offset")
    if x is None or y is None:
        return False
    return x < y + (b.size_bytes() or 0) and y < x + (a.size_bytes() or 0)


def _meets(a: set[Buffer] | frozenset[Buffer], b: set[Buffer] | frozenset[Buffer]) -> bool:
    return any(overlap(x, y) for x in a for y in b)


def _meets_told(pending: set[tuple[Buffer, int]], touched: set[Buffer] | frozenset[Buffer], told: Told) -> bool:
    """Whether an element that was used by one warp may be used by another."""
    return any(overlap(x, b) and not (x is b and (x, number) in told) for x, number in pending for b in touched)


class Insertion:
    """Walks a body twice where it is a loop: the second time with what the iteration before left pending."""

    def __init__(self, written: set[Buffer], groups: dict[tuple[int, int], int], by_hand: bool) -> None:
        self.written = written  # global tensors that are only read need no ordering
        self.groups = groups  # their barriers
        self.by_hand = by_hand  # the program orders what its single threads do itself: tl.disable_thread_storage_sync
        self.needed: set[int] = set()  # ids of statements that a barrier goes before
        self.within_warps: set[int] = set()  # of those before which the threads of a warp meet
        self.loops: list[Pending] = []

    def conflicts(self, p: Pending, reads, writes, groups: bool = True, own: int = 0, told: Told = frozenset(), hand: bool = False) -> bool:
        """``own``: the id of a unit that writes here, if its threads keep to elements of their own; ``told``: see there; ``hand``: what single threads
        did is in order."""
        if _meets_told(p.told_writes, {*reads, *writes}, told) or _meets_told(p.told_reads, writes, told):
            return True
        read, others = set(p.reads), set[Buffer]()
        if groups:
            read |= p.group_reads
            others |= p.group_writes
        if not hand:
            read |= p.hand_reads
            others |= p.hand_writes
        return _meets(p.written() | others, reads) or _meets(p.written(own) | others, writes) or _meets(read, writes)

    def visit(self, body: Body, p: Pending) -> None:
        for s in body:
            self._statement(s, p)

    def _touch(self, s: Stmt, p: Pending, reads, writes) -> None:
        reads = {b for b in reads if b.scope != GLOBAL or b in self.written}
        own = id(s) if isinstance(s, Unit) and s.own else 0
        told = s.told if isinstance(s, Unit) else frozenset()
        hand = self.by_hand and isinstance(s, Unit) and s.by_hand
        if id(s) in self.needed or self.conflicts(p, reads, writes, own=own, told=told, hand=hand):
            self.needed.add(id(s))
            p.clear()
        if hand:
            p.hand_reads |= reads
            p.hand_writes |= set(writes)
            return
        self._touch_told(s, p, reads, writes, told)
        known = {b for b, _ in told}
        p.reads |= reads - known
        if own:
            p.own_writes |= {(b, own) for b in set(writes) - known}
        else:
            p.writes |= set(writes) - known

    def _touch_told(self, s: Stmt, p: Pending, reads, writes, told: Told) -> None:
        """Elements that one warp alone uses: its threads wait for each other, where they are not one thread."""
        read, written = {x for x in told if x[0] in reads}, {x for x in told if x[0] in writes}
        shared = {x for x in told if x[1] > 0}
        if id(s) in self.within_warps or shared & (read | written) & p.recent_writes or shared & written & p.recent_reads:
            self.within_warps.add(id(s))
            p.warps_met()
        p.told_reads |= read
        p.told_writes |= written
        p.recent_reads |= read
        p.recent_writes |= written

    def _statement(self, s: Stmt, p: Pending) -> None:
        if isinstance(s, Unit):
            self._unit(s, p)
        elif isinstance(s, Role):
            self._role(s, p)
        elif isinstance(s, If):
            self._touch(s, p, _reads(s.cond), ())
            other = p.copy()
            self.visit(s.then, p)
            self.visit(s.other, other)
            p.merge(other)
        elif isinstance(s, (For, While)):
            self._loop(s, p)
        elif isinstance(s, Jump):
            if self.loops:
                self.loops[-1].merge(p)

    def _role(self, s: Role, p: Pending) -> None:
        """What a group needs of the whole block is waited for before; inside, its threads wait for each other only."""
        reads, writes = _touched(s.then)
        if id(s) in self.needed or self.conflicts(p, {b for b in reads if b.scope != GLOBAL or b in self.written}, writes, not _uses_mbarriers(s)):
            self.needed.add(id(s))
            p.clear()
        inner = Pending(arriving=set(p.arriving))
        loops, self.loops = self.loops, []
        self.visit(s.then, inner)
        self.loops = loops
        p.arriving |= inner.arriving
        p.group_reads |= {b for b in reads if b.scope != GLOBAL or b in self.written}
        p.group_writes |= writes

    def _unit(self, s: Unit, p: Pending) -> None:
        if s.barrier:
            p.clear()
            return
        if s.waits:
            p.writes |= p.arriving
            p.arriving.clear()
            return
        if s.asynchronous:
            self._touch(s, p, s.reads, s.writes)
            p.writes -= s.writes
            p.arriving |= s.writes
            return
        self._touch(s, p, s.reads, s.writes)
        p.writes -= s.late
        p.hand_writes -= s.late
        p.arriving |= s.late

    def _loop(self, s: For | While, p: Pending) -> None:
        heads = (s.start, s.extent) if isinstance(s, For) else (s.cond,)
        for e in heads:
            self._touch(s, p, _reads(e), ())
        start, known = p.copy(), set(self.needed)
        self._rounds(s, p)
        if start.size() > len(start.arriving) and len(self.needed) > len(known):
            self._waited_before(s, p, start, known)

    def _waited_before(self, s: For | While, p: Pending, start: Pending, known: set[int]) -> None:
        """Where a barrier in every round is there for what came before the loop only, one in front of the loop does."""
        inside, after = self.needed, start
        self.needed = set(known)
        after.clear()
        self._rounds(s, after)
        if self.needed < inside:
            self.needed.add(id(s))
            p.take(after)
        else:
            self.needed = inside

    def _rounds(self, s: For | While, p: Pending) -> None:
        entry = p.copy()
        while True:
            # The state at the head: what came before the loop, or what an iteration leaves behind.
            jumps = Pending()
            self.loops.append(jumps)
            before, size = len(self.needed) + len(self.within_warps), entry.size()
            p.take(entry)
            if isinstance(s, While):
                p.reads |= _reads(s.cond)
            self.visit(s.body, p)
            self.loops.pop()
            if isinstance(s, For) and s.attrs.get("tiles"):
                p.forget_tensors()
            p.merge(jumps)
            entry.merge(p)
            if len(self.needed) + len(self.within_warps) == before and entry.size() == size:
                break
        p.merge(entry)

    def rebuild(self, body: Body, role: Role | None = None) -> Body:
        out: list[Stmt] = []
        for s in body:
            if id(s) in self.needed:
                out.append(SYNC_THREADS.run(s.span) if role is None else role_barrier((role.low, role.high), self.groups, s.span))
            elif id(s) in self.within_warps:
                out.append(SYNC_WARP.run(s.span))
            if isinstance(s, (For, While)):
                s = replace(s, body=self.rebuild(s.body, role))
            elif isinstance(s, If):
                inner = s if isinstance(s, Role) else role
                s = replace(s, then=self.rebuild(s.then, inner), other=self.rebuild(s.other, inner))
            out.append(s)
        return tuple(out)


def _reads(e) -> set[Buffer]:
    found = Accesses()
    found.expression(e)
    return found.reads


def insert_barriers(program: TileProgram, ctx: PassContext) -> TileProgram:
    out: list[Stmt] = []
    for s in program.body:
        if isinstance(s, Launch):
            groups = group_barriers((x.low, x.high) for x in walk_statements(s.body) if isinstance(x, Role))
            insertion = Insertion(_written(s.body), groups, is_set(program, NO_THREAD_SYNC))
            insertion.visit(s.body, Pending())
            s = replace(s, body=strip(insertion.rebuild(s.body)))
        out.append(s)
    return replace(program, body=tuple(out))


def _uses_mbarriers(s: Stmt) -> bool:
    return any(name.startswith("tile_mbarrier") for _, name in device_calls(s))


def _touched(body: Body) -> tuple[set[Buffer], set[Buffer]]:
    """What the units of a body read and write."""
    reads: set[Buffer] = set()
    writes: set[Buffer] = set()
    for s in walk_statements(body):
        if isinstance(s, Unit):
            reads |= s.reads
            writes |= s.writes
    return reads, writes


def _written(body: Body) -> set[Buffer]:
    found: set[Buffer] = set()
    for s in body:
        if isinstance(s, Unit):
            found |= s.writes
        elif isinstance(s, If):
            found |= _written(s.then) | _written(s.other)
        elif isinstance(s, (For, While)):
            found |= _written(s.body)
    return found
