"""Places of shared buffers in the block's pool: buffers that never live together may share bytes."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import dtypes
from ..ir.buffer import BARRIER, CLUSTER_BARRIER, Buffer
from ..ir.build import const_int
from ..ir.expr import Load
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Launch, Role, Stmt, Store, While, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .context import LaunchState, PassContext
from .errors import LoweringError
from .rewrite import map_children, replace_buffers
from .unit import Unit
from .uses import buffers_in

_ALIGNMENT = 16


@dataclass
class Lifetime:
    """First and last position of use, in program order."""

    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


class Lifetimes:
    """Positions of uses. A buffer used in a loop but allocated outside of it lives through the whole loop."""

    def __init__(self) -> None:
        self.found: dict[Buffer, Lifetime] = {}
        self.depth: dict[Buffer, int] = {}
        self.loops: list[tuple[int, list[Buffer]]] = []
        self.now = 0

    def visit(self, body: Body) -> None:
        for s in body:
            self.now += 1
            if isinstance(s, Alloc) and in_pool(s.buffer):
                self.depth.setdefault(s.buffer.storage(), len(self.loops))
            if isinstance(s, Unit):
                for inner in walk_statements(s.then):
                    self._own(inner)
                for b in s.reads | s.writes:
                    self._use(b)
                continue
            self._own(s)
            if isinstance(s, (For, While)):
                self._loop(s.body)
            elif isinstance(s, If):
                self.visit(s.then)
                self.visit(s.other)

    def _own(self, s: Stmt) -> None:
        if isinstance(s, Store):
            self._use(s.buffer)
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    self._use(x.buffer)

    def _loop(self, body: Body) -> None:
        start = self.now
        used: list[Buffer] = []
        self.loops.append((start, used))
        self.visit(body)
        self.loops.pop()
        self.now += 1
        level = len(self.loops)
        for b in used:
            if self.depth.get(b, 0) <= level:
                life = self.found[b]
                life.first, life.last = min(life.first, start), self.now
                if self.loops:
                    self.loops[-1][1].append(b)

    def _use(self, b: Buffer) -> None:
        b = b.storage()
        if not in_pool(b):
            return
        life = self.found.setdefault(b, Lifetime(self.now, self.now))
        life.last = self.now
        if self.loops:
            self.loops[-1][1].append(b)


def in_pool(b: Buffer) -> bool:
    return b.is_shared() or b.scope in (BARRIER, CLUSTER_BARRIER)


def plan_shared_memory(program: TileProgram, ctx: PassContext) -> TileProgram:
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        out.append(_plan(s, ctx.state(number, s), ctx) if isinstance(s, Launch) else s)
    return replace(program, body=tuple(out))


def _plan(s: Launch, state: LaunchState, ctx: PassContext) -> Launch:
    lives = Lifetimes()
    lives.visit(s.body)
    end = lives.now + 1
    everything = not s.attrs.get("specialised") and _outlives_statements(s.body)
    for b, life in lives.found.items():
        if everything or b.scope in (BARRIER, CLUSTER_BARRIER) or b.attrs.get("whole_kernel"):
            life.first, life.last = 0, end
        elif s.attrs.get("early_copies") and b in state.bulk:
            life.first = 0  # what threads write is in no order with what the copy engine writes to the same place later
    offsets, total = place(lives.found, state)
    limit = ctx.target.shared_bytes
    if limit and total > limit:
        sizes = ", ".join(f"{b.name} {b.size_bytes()}" for b in sorted(lives.found, key=lambda b: -(b.size_bytes() or 0))[:6])
        raise LoweringError(f"This kernel needs {total} bytes of shared memory a block; {ctx.target.name} has {limit}. The largest "
                            f"buffers (bytes): {sizes}. Use smaller tiles or fewer pipeline stages.", s.span, "smem-capacity")
    new = _placed(offsets, views(s.body))
    declared = {x.buffer for x in walk_statements(s.body) if isinstance(x, Alloc)}
    missing = tuple(Alloc(b.span, b) for b in new if b not in declared)
    body = _without_unused((*missing, *s.body), new)
    return replace(s, body=replace_buffers(body, new), attrs={**s.attrs, "shared_bytes": total})


def _without_unused(body: Body, used: dict[Buffer, Buffer]) -> Body:
    kept = [s for s in body if not (isinstance(s, Alloc) and in_pool(s.buffer) and s.buffer not in used)]
    return tuple(map_children(s, lambda inner: _without_unused(inner, used)) for s in kept)


def _outlives_statements(body: Body) -> bool:
    """Whether some operation may still use shared memory when its statement is over: asynchronous copies, multiplications, other groups of threads."""
    return any(isinstance(s, Role) or (isinstance(s, Alloc) and s.buffer.scope in (BARRIER, CLUSTER_BARRIER))
               or (isinstance(s, Unit) and s.waits and not s.managed) for s in walk_statements(body))


def _placed(offsets: dict[Buffer, int], viewing: set[Buffer]) -> dict[Buffer, Buffer]:
    """Buffers of their own for this program, which know their place: the user's may belong to other programs too."""
    new = {b: replace(b, attrs={**b.attrs, "byte_offset": offset}) for b, offset in offsets.items()}
    for b in viewing:
        start = const_int(b.offset) if b.offset is not None else 0
        if start is None:
            raise LoweringError(f"{b.name} views {b.storage().name} from a place that is not constant; give T.view a constant offset.", b.span, "view-offset")
        byte_offset = offsets.get(b.storage(), 0) + start * dtypes.bits(b.storage().dtype) // 8
        new[b] = replace(b, view_of=new.get(b.storage(), b.view_of), offset=None, attrs={**b.attrs, "byte_offset": byte_offset})
    return new


def views(body: Body) -> set[Buffer]:
    """The shared buffers that look at others' storage in another type."""
    return {b for b in buffers_in(body) if b.view_of is not None and b.is_shared()}


def alignment(b: Buffer, state: LaunchState) -> int:
    layout: Any = state.shared_layouts.get(b)
    if layout is None:
        return 128 if b in state.bulk else _ALIGNMENT
    return int(getattr(layout, "alignment", 128))


def place(lives: dict[Buffer, Lifetime], state: LaunchState) -> tuple[dict[Buffer, int], int]:
    """First fit, the largest first; returns the places and the bytes of the pool."""
    offsets: dict[Buffer, int] = {}
    placed: list[tuple[int, int, Lifetime]] = []
    total = 0
    for b in sorted(lives, key=lambda b: (-(b.size_bytes() or 0), lives[b].first)):
        size, step = b.size_bytes() or 0, alignment(b, state)
        offset = 0
        for start, stop, life in sorted(placed, key=lambda p: p[0]):
            if life.meets(lives[b]) and offset < stop and start < offset + size:
                offset = -(-stop // step) * step
        offsets[b] = offset
        placed.append((offset, offset + size, lives[b]))
        total = max(total, offset + size)
    return offsets, total
