"""Loops whose tiles the copy engine brings while no warp is set apart for it: ``tl.disable_warp_specialized``.

A loop of ``n`` stages becomes::

    one thread starts the copies of iterations 0 .. n-2
    for k:
        block barrier: everybody has read the stage of iteration k - 1
        one thread starts the copies of iteration k + n - 1 into it
        the rest of iteration k; before a tile is first read its barrier is waited for

Nothing is in the queues of loads and stores but what threads load themselves, and matrix operations need no fence for tiles that the copy engine
brought. Tiles that are copied once, before the loops, come the same way.
"""
from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import FRAGMENT, GLOBAL
from ...ir.build import binary, const, const_int
from ...ir.expr import Expr, Load
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Alloc, Body, For, If, Launch, Stmt, TileOp
from ...records import dataclass
from ..context import LaunchState, PassContext
from ..rewrite import map_own
from ..software_pipeline import Room
from .consumer import Consumer
from .guarded import guard_of
from .plan import WARP, LaunchPlan, LoopPlan, written_buffers
from .proxies import fence_shared_operands
from .rings import Place, Ring, Single, fill, make_rings, maps
from .schedule import Scheduler


def joint_problem(s: Launch, plan: LaunchPlan) -> str:
    """Why the threads that compute cannot start the copies as well, or nothing."""
    for found in plan.loops.values():
        if found.loop not in s.body or guard_of(found.loop) is not None:
            return "it runs several times or leaves iterations out"  # the stages would be counted through the whole kernel
        written = written_buffers(s.body)
        bounds = (found.loop.start, found.loop.extent)
        if any(isinstance(x, Load) and (x.buffer.storage().scope != GLOBAL or x.buffer.storage() in written) for e in bounds for x in walk_expr(e)):
            return "its bounds depend on what threads compute"
        if found.stages < 2:
            return "it has one stage"
    return ""


@dataclass
class Joint:
    s: Launch
    plan: LaunchPlan
    state: LaunchState
    ctx: PassContext

    def launch(self) -> Launch:
        s, ctx, state = self.s, self.ctx, self.state
        self._deepen()
        warps = state.extents[0] // WARP
        rings = {key: make_rings(found, warps, ctx) for key, found in self.plan.loops.items()}
        single = {key: Single.make(op, warps, False, ctx) for key, op in self.plan.single.items()}
        places = {key: _place(found, ctx) for key, found in self.plan.loops.items()}
        tiles = {b for found in rings.values() for r in found for b in r.tiles.values()} | {x.tile for x in single.values()}
        body = _Threads(self.plan, rings, places, single, state.extents[0], ctx).body(s.body)
        ctx.specialised = True
        state.bulk |= tiles
        copies = [op for found in self.plan.loops.values() for group in found.groups for op in group.copies] + [x.op for x in single.values()]
        barriers = [r.full for found in rings.values() for r in found] + [x.full for x in single.values()]
        starts = [x for place in places.values() for x in place.start()]
        allocations = [Alloc(b.span, b) for b in (*tiles, *barriers)]
        self._tell(copies)
        attrs = {**s.attrs, "specialised": True, "early_copies": True, "thread_vars": state.thread_vars,
                 "described": maps(rings, single.values())}
        return replace(s, body=(*allocations, *starts, *fence_shared_operands(body, tiles, state.extents[0], ctx.target)), attrs=attrs)

    def _deepen(self) -> None:
        """One stage more where memory is left, as for loops with cp.async: as many iterations as were asked for are then in flight."""
        room = Room.of(self.s, self.ctx)
        for found in self.plan.loops.values():
            extent = const_int(found.loop.extent)
            stage = sum(op.region("dst").buffer.size_bytes() or 0 for group in found.groups for op in group.copies)
            if (extent is None or extent > found.stages) and room.has_another(found.stages, stage):
                self.ctx.deepened = True
                found.stages += 1

    def _tell(self, copies: list[TileOp]) -> None:
        for found in self.plan.loops.values():
            self.ctx.stages[found.loop.span] = found.stages
            self.ctx.decide(found.loop.span, "pipelined loop", f"one of the computing threads starts the copies, {found.stages} stages",
                            "pass_configs set tl.disable_warp_specialized")
        for op in copies:
            self.ctx.decide(op.span, f"copy to {op.region('dst').buffer.name}", "bulk tensor copy (TMA)")


class _Threads(Consumer):
    """The code of all threads: what consumers do, without giving stages back one by one, and the copies."""

    def __init__(self, plan: LaunchPlan, rings: dict[int, list[Ring]], places: dict[int, Place], single: dict[int, Single], threads: int, ctx: PassContext) -> None:
        super().__init__(plan, rings, places, places, single, set(), threads, ctx.target)

    def body(self, body: Body) -> Body:
        made = super().body(tuple(x for s in body for x in ((*self.single[id(s)].produce(), s) if id(s) in self.single else (s,))))
        return _started_early(made)

    def _pipelined(self, s: For, statements: Body) -> list[Stmt]:
        plan, place = self.plan.loops[id(s)], self.places[id(s)]
        allocations, left = self._left(s, plan, statements)
        scheduler = self._sequence(s, left, [(i, place) for i in range(len(left.statements))], {place: s.var})
        scheduler = Scheduler(scheduler.body, {}, scheduler.waits, lambda what, before: [], self.threads, self.target)
        ahead = s.var + (plan.stages - 1) * s.step
        end = s.start + s.extent * s.step
        more = If(s.span, binary("lt", ahead, end), tuple(self._copies(s, plan, ahead, place.before())))
        inside = (TileOp(s.span, "sync_threads", {"managed": True}), *place.enter(), more, *scheduler.straight(), *place.advance())
        return [*allocations, *self._first(s, plan), replace(s, kind="serial", attrs={}, body=inside)]

    def _first(self, s: For, plan: LoopPlan) -> list[Stmt]:
        """The copies of the first iterations, as many as there are stages but one."""
        out: list[Stmt] = []
        for i in range(plan.stages - 1):
            there = binary("lt", const(i), s.extent)
            copies = tuple(self._copies(s, plan, s.start + i * s.step, const(i)))
            known = getattr(there, "value", None)
            out += copies if known else () if known is not None else (If(s.span, there, copies),)
        return out

    def _copies(self, s: For, plan: LoopPlan, value: Expr, stage: Expr) -> list[Stmt]:
        """The copies of the iteration in which the loop's variable has a value."""
        out: list[Stmt] = []
        for ring in self.rings[id(s)]:
            moved = [map_own(op, lambda e: value if e is s.var else None) for op in ring.group.copies]
            out.append(fill([op for op in moved if isinstance(op, TileOp)], ring.full, stage, ring.tiles, plan.loop.span))
        return out


def _place(plan: LoopPlan, ctx: PassContext) -> Place:
    made = Place.make(plan.loop.var.name, plan.stages, plan.loop.span, ctx)
    made.uniform = const_int(plan.loop.extent) is None
    return made


def _started_early(body: Body) -> Body:
    """Copies are started before what was started before them is waited for, and before threads work on their registers."""
    out: list[Stmt] = []
    for s in body:
        k = len(out)
        if _only_fills(s):
            while k > 0 and _can_come_later(out[k - 1]):
                k -= 1
        out.insert(k, s)
    return tuple(out)


def _can_come_later(s: Stmt) -> bool:
    if isinstance(s, Alloc):
        return s.buffer.scope == FRAGMENT
    if not isinstance(s, TileOp) or s.op not in ("copy", "fill", "clear"):
        return isinstance(s, TileOp) and s.op == "mbarrier_wait_parity"
    return s.region("dst").buffer.scope == FRAGMENT


def _only_fills(s: Stmt) -> bool:
    return isinstance(s, TileOp) and s.op == "bulk_fill" or isinstance(s, If) and not s.other and all(map(_only_fills, s.then))
