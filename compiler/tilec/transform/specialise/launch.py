"""The pass: a kernel whose loops the copy engine can feed becomes one warp that copies and warps that compute."""
from __future__ import annotations

import math
from dataclasses import replace

from ...ir.buffer import FRAGMENT, Buffer
from ...ir.build import binary, const, const_int
from ...ir.program import TileProgram
from ...ir.stmt import Alloc, Body, For, Launch, Role, Stmt
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ...target.chips import Target
from ..configs import NO_TMA, NO_WARP_SPECIALISATION, is_set
from ..context import LaunchState, PassContext
from ..fragments_ahead import fragments_ahead
from ..resident_blocks import registers_at_start
from .balance import counted_down
from .consumer import Consumer
from .depth import deepen
from .guarded import guarded_loops
from .joint import Joint, joint_problem
from .persistent import order_of, stays, tile_loop
from .plan import WARP, WARPGROUP, LaunchPlan, is_nested, plan_launch, written_buffers
from .producer import NotSeparable, Producer
from .proxies import fence_shared_operands
from .registers import Registers, share_registers
from .rings import Place, Ring, Single, make_rings, maps
from .stores import BulkStores
from .uniform import UniformConditions

_SPARE = 2048  # bytes of shared memory for barriers and the system


def specialise_warps(program: TileProgram, ctx: PassContext) -> TileProgram:
    if not ctx.target.wgmma or not ctx.specialise:
        return program
    if is_set(program, NO_TMA):
        for s in walk_statements(program.body):
            if isinstance(s, For) and s.kind == "pipelined":
                ctx.decide(s.span, "pipelined loop", "cp.async by all threads", f"pass_configs set tl.{NO_TMA}")
        return program
    joint = is_set(program, NO_WARP_SPECIALISATION)
    ctx.tensors = {p for p in program.params if isinstance(p, Buffer)}
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        out.append(_launch(s, ctx.state(number, s), ctx, joint) if isinstance(s, Launch) else s)
    return replace(program, body=tuple(out))


def _launch(s: Launch, state: LaunchState, ctx: PassContext, joint: bool) -> Launch:
    """``joint``: the program wants no warp of its own for copies."""
    plain = s
    if any(isinstance(x, For) and x.kind == "pipelined" for x in walk_statements(s.body)):
        plain = replace(s, body=guarded_loops(UniformConditions(s, state.thread_vars).body(s.body)))
    plan = plan_launch(plain, state, ctx)
    if not plan.loops:
        return s
    if joint:
        return _joint(s, plain, plan, state, ctx)
    try:
        return Specialisation(plain, plan, state, ctx).launch()
    except NotSeparable as reason:
        for found in plan.loops.values():
            ctx.decide(found.loop.span, "pipelined loop", "cp.async by all threads", str(reason))
        return s


def _joint(s: Launch, plain: Launch, plan: LaunchPlan, state: LaunchState, ctx: PassContext) -> Launch:
    problem = joint_problem(plain, plan)
    if not problem:
        plain = fragments_ahead(plain, ctx)
        return Joint(plain, plan_launch(plain, state, ctx), state, ctx).launch()
    for found in plan.loops.values():
        ctx.decide(found.loop.span, "pipelined loop", "cp.async by all threads", f"pass_configs set tl.{NO_WARP_SPECIALISATION}, and {problem}")
    return s


@dataclass
class Specialisation:
    s: Launch
    plan: LaunchPlan
    state: LaunchState
    ctx: PassContext

    def __post_init__(self) -> None:
        s, plan, ctx = self.s, self.plan, self.ctx
        self.threads = self.state.extents[0]
        warps = self.threads // WARP
        shared = self._shared_bytes()
        self.registers: Registers = share_registers(self.threads // WARPGROUP, shared, ctx.target.shared_bytes,
                                                    _fragment_registers(s.body) // self.threads, _wanted_blocks(s, ctx.target),
                                                    registers_at_start(s.body, self.threads, ctx.target))
        self.asked = deepen(s, plan, self.threads, ctx.target, ctx.target.shared_bytes // self.registers.blocks - _SPARE - shared)
        self.shared_bytes = self._shared_bytes()
        self.rings: dict[int, list[Ring]] = {key: make_rings(found, warps, ctx) for key, found in plan.loops.items()}
        self.places = [{key: Place.make(found.loop.var.name, found.stages, found.loop.span, ctx) for key, found in plan.loops.items()} for _ in range(3)]
        tiles = [b for found in self.rings.values() for r in found for b in r.tiles.values()]
        self.once = stays(s, plan, self.shared_bytes, self.registers.blocks, ctx.target)
        self.single = {key: Single.make(op, warps, not self.once, ctx) for key, op in plan.single.items()}
        self.tiles = {*tiles, *(x.tile for x in self.single.values())}
        nested = {key for key, found in plan.loops.items() if not self.once or is_nested(s, found.loop)}
        for key in (key for key, found in plan.loops.items() if key in nested or const_int(found.loop.extent) is None):
            self.places[1][key].uniform = self.places[2][key].uniform = True
        self.producer = Producer(plan, self.rings, self.places[0], self.single, written_buffers(s.body))
        self.consumer = Consumer(plan, self.rings, self.places[1], self.places[2], self.single, nested, self.threads, ctx.target)

    def _shared_bytes(self) -> int:
        copied = {op.region("dst").buffer: found.stages for found in self.plan.loops.values() for group in found.groups for op in group.copies}
        return sum((b.size_bytes() or 0) * copied.get(b, 1) for b in {*copied, *_shared_tiles(self.s.body)})

    def launch(self) -> Launch:
        """Raises NotSeparable, with nothing changed."""
        s, state, span = self.s, self.state, self.s.span
        copying: Body = self.producer.body(s.body)
        computing: Body = self.consumer.body(s.body)
        self.ctx.specialised = True
        state.bulk |= self.tiles
        stores = BulkStores(computing, state, self.tiles, self._room(), not self.once, self.threads)
        computing = fence_shared_operands(stores.rewritten(), self.tiles, self.threads, self.ctx.target)
        attrs = {**s.attrs, "specialised": True, "thread_vars": state.thread_vars, "min_blocks_per_sm": self.registers.blocks}
        attrs["described"] = [*maps(self.rings, self.single.values()), *stores.described]
        if not self.once:
            copying, computing = (tile_loop(s, "round", copying),), (tile_loop(s, "round", computing), *stores.finish())
            attrs.update(persistent=self.registers.blocks, rasterization=order_of(s, self.plan))
        else:
            attrs["count_down"] = counted_down(s, self.plan)
        self._tell()
        tx, total = state.thread_vars[0], self.threads + WARPGROUP
        state.extents = (total, 1, 1)
        first_warp = Role(span, binary("lt", tx, const(self.threads + WARP)), (*self._start(0), *copying), (), self.threads, self.threads + WARP)
        roles = (
            Role(span, binary("ge", tx, const(self.threads)), (*self.registers.give(span), first_warp), (), self.threads, total),
            Role(span, binary("lt", tx, const(self.threads)), (*self.registers.take(span), *self._start(1), *computing), (), 0, self.threads),
        )
        return replace(s, threads=(const(total), const(1), const(1)), body=(*self._allocations(stores), *roles), attrs=attrs)

    def _start(self, side: int) -> list[Stmt]:
        places = [*self.places[side].values()]
        if side:
            places += [place for key, place in self.places[2].items() if key in self.consumer.rotated]
        return [*(x for place in places for x in place.start()), *(x for single in self.single.values() for x in single.start(side))]

    def _room(self) -> int:
        """Shared memory that is left. A block that does one tile may put what it stores where its copied tiles were."""
        capacity = self.ctx.target.shared_bytes // self.registers.blocks - _SPARE
        return capacity if self.once else capacity - self.shared_bytes

    def _allocations(self, stores: BulkStores) -> list[Alloc]:
        found: list[Buffer] = [b for rings in self.rings.values() for r in rings for b in (*r.tiles.values(), r.full, r.empty)]
        found += [b for x in self.single.values() for b in (x.tile, *x.barriers())]
        found += [*stores.sources, *stores.staged] if stores.again else []
        return [Alloc(b.span, b) for b in found]

    def _tell(self) -> None:
        decide = self.ctx.decide
        for found in self.plan.loops.values():
            asked = self.asked.get(id(found.loop))
            self.ctx.stages[found.loop.span] = found.stages
            decide(found.loop.span, "pipelined loop", f"a warp of its own copies, {found.stages} stages ahead at most",
                   f"memory is left for more than the {asked} asked for" if asked else "")
            if id(found.loop) in self.consumer.rotated:
                decide(found.loop.span, "matrix operations", "the next iteration's first one is started before this one's last")
            for op in (op for group in found.groups for op in group.copies):
                decide(op.span, f"copy to {op.region('dst').buffer.name}", "bulk tensor copy (TMA) by the copying warp")
        for single in self.single.values():
            decide(single.op.span, f"copy to {single.tile.name}", "bulk tensor copy (TMA) by the copying warp")
        decide(self.s.span, "blocks", "one a tile" if self.once else "stay and do tile after tile", self.once)


def _wanted_blocks(s: Launch, target: Target) -> object:
    """Blocks a multiprocessor that are asked for: one, where there are too few for two."""
    extents = [const_int(e) for e in s.grid]
    few = None not in extents and math.prod(e or 0 for e in extents) <= target.sm_count
    return s.attrs.get("min_blocks_per_sm") or (1 if few else None)


def _fragment_registers(body: Body) -> int:
    """32-bit registers of all threads together that the kernel's fragments take, if nothing is held twice."""
    return sum((x.buffer.size_bytes() or 0) // 4 for x in walk_statements(body)
               if isinstance(x, Alloc) and x.buffer.scope == FRAGMENT and x.buffer.view_of is None)


def _shared_tiles(body: Body) -> set[Buffer]:
    return {x.buffer for x in walk_statements(body) if isinstance(x, Alloc) and x.buffer.is_shared() and x.buffer.view_of is None}
