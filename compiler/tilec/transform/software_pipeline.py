"""Pipelined loops: copies from global memory run ahead of the iterations that read them.

A loop of ``n`` stages becomes::

    copies of iterations 0 .. n-2, each a cp.async group of its own       (one group per iteration, even if empty)
    for k:
        wait until the group of iteration k has arrived; block barrier
        copies of iteration k + n - 1, if there is one; commit
        everything else of iteration k

The barrier makes iteration k's data visible to all threads and at the same time frees the stage that iteration k - 1 read,
which is the one the new copies go to. Stage = iteration % n.

Copies that convert are no cp.async. Where they are small they are split: the tensor's elements come into registers at the place of the copies, and go
to the stage at the end of the iteration, so that nobody waits for the tensor in between.

So ``n`` stages keep the copies of ``n - 1`` iterations in flight. Where shared memory is left that no other block could use there is one stage
more than asked for, and as many iterations are in flight as were asked for.
"""
from __future__ import annotations

import math
from dataclasses import replace

from ..ir.buffer import FRAGMENT, Buffer, Region, whole
from ..ir.build import binary, const, const_int
from ..ir.expr import Expr, Var
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Launch, Let, Role, Stmt, TileOp
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .ahead import at_stage, count_uses, has_jump, loop_facts, place_of, reads_asynchronously, runs_ahead
from .context import PassContext
from .fragments_ahead import Words, fragment_words, fragments_ahead
from .rewrite import map_children, map_own

_OVERHEAD = 1024  # bytes of a block's shared memory that the system takes
_MOST_THREADS = 2048  # of a multiprocessor


def pipeline_loops(program: TileProgram, ctx: PassContext) -> TileProgram:
    if ctx.target.sm < 80:
        return program
    body = tuple(_launch(s, ctx) if isinstance(s, Launch) else s for s in program.body)
    return replace(program, body=body)


def _launch(s: Launch, ctx: PassContext) -> Launch:
    staged: dict[Buffer, Buffer] = {}
    s = fragments_ahead(s, ctx)
    uses = count_uses(s.body)
    body = _body(s.body, staged, uses, ctx, Room.of(s, ctx), fragment_words(s))
    return replace(s, body=_without_allocations(body, staged))


@dataclass
class Room:
    """``tiles``: bytes of all shared tiles of a kernel, each once; ``most``: blocks of its threads that a multiprocessor holds; 0: leave rings as they are."""

    tiles: int
    most: int
    capacity: int

    @staticmethod
    def of(s: Launch, ctx: PassContext) -> Room:
        loops = [x for x in walk_statements(s.body) if isinstance(x, For) and x.kind == "pipelined" and (x.attrs.get("num_stages") or 0)]
        shared = {x.buffer for x in walk_statements(s.body) if isinstance(x, Alloc) and x.buffer.is_shared() and x.buffer.view_of is None}
        threads = math.prod(const_int(t) or 0 for t in s.threads)
        roles = any(isinstance(x, Role) for x in walk_statements(s.body))
        if not ctx.deepen or len(loops) != 1 or roles or not threads or any(b.size_bytes() is None for b in shared):
            return Room(0, 0, 0)
        return Room(sum(b.size_bytes() or 0 for b in shared), max(1, _MOST_THREADS // threads), ctx.target.shared_bytes)

    def has_another(self, stages: int, stage: int) -> bool:
        """Whether a ring of stages of so many bytes can have one more without fewer blocks on a multiprocessor, even if nothing else shares memory."""
        before = min(self.most, self.capacity // (stages * stage + _OVERHEAD)) if stage else 0
        after = min(self.most, self.capacity // (self.tiles + stages * stage + _OVERHEAD))
        return 0 < before <= after


def _body(body: Body, staged: dict[Buffer, Buffer], uses: dict[Buffer, int], ctx: PassContext, room: Room, words: Words) -> Body:
    out: list[Stmt] = []
    for s in body:
        mine = words.of_group(s.high - s.low) if isinstance(s, Role) else words
        s = map_children(s, lambda inner, mine=mine: _body(inner, staged, uses, ctx, room, mine))  # type: ignore[misc]
        if isinstance(s, For) and s.kind == "pipelined":
            out += _loop(s, staged, uses, ctx, room, words)
        else:
            out.append(s)
    return tuple(out)


def _without_allocations(body: Body, staged: dict[Buffer, Buffer]) -> Body:
    """The staged buffers are allocated in front of their loops."""
    kept = [s for s in body if not (isinstance(s, Alloc) and s.buffer in staged)]
    return tuple(map_children(s, lambda inner: _without_allocations(inner, staged)) for s in kept)


# -- loops ---------------------------------------------------------------------------------------------------------------------
def _loop(s: For, staged: dict[Buffer, Buffer], uses: dict[Buffer, int], ctx: PassContext, room: Room, words: Words) -> Body:
    stages = s.attrs.get("num_stages") or 0
    serial = replace(s, kind="serial")
    if not isinstance(stages, int) or stages < 2 or has_jump(s.body) or reads_asynchronously(s.body):
        return (serial,)
    facts = loop_facts(s)
    inside = count_uses(s.body)
    ahead: dict[int, TileOp] = {}
    for i, inner in enumerate(s.body):
        found = runs_ahead(inner, i, s, facts, inside, uses)
        if found is not None:
            ahead[id(inner)] = found
    if not ahead:
        ctx.note(f"the pipelined loop{place_of(s)} has no copy that can run ahead of its iteration; it runs serially")
        return (serial,)
    extent, why = const_int(s.extent), ""
    if (extent is None or extent > stages) and room.has_another(stages, sum(op.region("dst").buffer.size_bytes() or 0 for op in ahead.values())):
        ctx.deepened = True
        stages, why = stages + 1, f"memory is left for more than the {stages} asked for"
    ctx.stages[s.span] = stages
    ctx.ahead[s.span] = [(op.region("dst").buffer.name, op.span) for op in ahead.values()]
    if why or not ctx.target.wgmma:
        ctx.decide(s.span, "pipelined loop", f"cp.async by all threads, {stages} stages", why)
    split = {key: Buffer(ctx.fresh(f"{op.region('dst').buffer.name}_loaded"), op.region("dst").buffer.shape, op.region("src").dtype, FRAGMENT, op.span)
             for key, op in ahead.items() if _converts(op)}
    if not words.have_room(split.values()):
        split = {}
    for key in split:
        ctx.decide(ahead[key].span, f"copy to {ahead[key].region('dst').buffer.name}", "loaded into registers an iteration early, converted at the iteration's end")
    return _Pipeline(s, stages, ahead, split, ctx).lower(staged)


def _converts(op: TileOp) -> bool:
    return op.op == "copy" and op.region("src").dtype != op.region("dst").dtype


# -- the loop ----------------------------------------------------------------------------------------------------------------
class _Pipeline:
    """``split``: where the elements of copies that convert are kept meanwhile."""

    def __init__(self, s: For, stages: int, ahead: dict[int, TileOp], split: dict[int, Buffer], ctx: PassContext) -> None:
        self.s, self.stages, self.ahead, self.split, self.ctx = s, stages, ahead, split, ctx
        self.group = ctx.fresh("pipeline")
        plain = const_int(s.start) == 0 and s.step == 1
        self.counter = s.var if plain else Var("int32", s.var.span, f"{s.var.name}_n", "loop")

    def lower(self, staged: dict[Buffer, Buffer]) -> Body:
        new: dict[Buffer, Buffer] = {}
        for op in self.ahead.values():
            old = op.region("dst").buffer
            new[old] = Buffer(old.name, (const(self.stages), *old.shape), old.dtype, old.scope, old.span, attrs=dict(old.attrs))
        staged.update(new)
        allocations = [Alloc(b.span, b) for b in (*new.values(), *self.split.values())]
        return (*allocations, *self._prologue(new), self._steady(new), self._operator("ptx_wait_group", count=0))

    def _operator(self, op: str, **args: object) -> TileOp:
        return TileOp(self.s.span, op, {**args, "managed": True})

    def _copies(self, iteration: Expr, new: dict[Buffer, Buffer], when: str, whole_copies: bool = True) -> Body:
        """The copies of an iteration, given by its number; of those that are split all, or only what comes into registers."""
        value = self.s.start + iteration * self.s.step
        out: list[Stmt] = []
        for key, op in self.ahead.items():
            if key in self.split and not whole_copies:
                loaded = replace(op, args={**op.args, "dst": whole(self.split[key])})
                out.append(map_own(loaded, lambda e: value if e is self.s.var else None))
                continue
            dst = op.region("dst")
            buffer = new[dst.buffer]
            stage = iteration % self.stages
            target = Region(buffer, (stage, *dst.mins), (const(1), *dst.extents), "slice", dst.span)
            args = {**op.args, "dst": target, "asynchronous": True, "pipeline": (when, self.group)}
            moved = map_own(replace(op, args={**args, "src": op.region("src")}), lambda e: value if e is self.s.var else None)
            out.append(moved)
        return tuple(out)

    def _arrivals(self, iteration: Expr, new: dict[Buffer, Buffer]) -> Body:
        """From registers to the iteration's stage."""
        out: list[Stmt] = []
        for key, loaded in self.split.items():
            dst = self.ahead[key].region("dst")
            target = Region(new[dst.buffer], (iteration % self.stages, *dst.mins), (const(1), *dst.extents), "slice", dst.span)
            out.append(TileOp(self.ahead[key].span, "copy", {"src": whole(loaded), "dst": target}))
        return tuple(out)

    def _prologue(self, new: dict[Buffer, Buffer]) -> Body:
        out: list[Stmt] = []
        for i in range(self.stages - 1):
            there = binary("lt", const(i), self.s.extent)
            copies = self._copies(const(i), new, "prologue")
            known = getattr(there, "value", None)
            if known is None:
                out.append(If(self.s.span, there, copies))
            elif known:
                out += copies
            out.append(self._operator("ptx_commit_group"))
        return tuple(out)

    def _steady(self, new: dict[Buffer, Buffer]) -> For:
        span, k = self.s.span, self.counter
        ahead = Var("int32", span, f"{k.name}_ahead", "let")
        prefetch = (Let(span, ahead, k + (self.stages - 1)),
                    If(span, binary("lt", ahead, self.s.extent), self._copies(ahead, new, "prefetch", False)))
        arrivals = (If(span, binary("lt", ahead, self.s.extent), self._arrivals(ahead, new)),) if self.split else ()
        rest = tuple(x for x in self.s.body if id(x) not in self.ahead and not (isinstance(x, Alloc) and x.buffer in new))
        rest = at_stage(rest, new, k % self.stages)
        if k is not self.s.var:
            rest = (Let(span, self.s.var, self.s.start + k * self.s.step), *rest)
        body = (self._operator("ptx_wait_group", count=self.stages - 2), self._operator("sync_threads"), *prefetch,
                self._operator("ptx_commit_group"), *rest, *arrivals)
        return For(span, k, const(0), self.s.extent, body, "serial", 1, {"pipeline": self.group})
