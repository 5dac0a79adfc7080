"""Rings of stages: their tiles, their barriers, and where producer and consumers are in them.

Of every group of copies there are two mbarriers a stage: ``full`` completes when the group's bytes have arrived, ``empty`` when every
consumer warp has read them. Both sides count stages alike, so a stage and the parity of its round are all they keep.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any

from ...ir.buffer import BARRIER, VAR, Buffer, Region
from ...ir.build import binary, const, select
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import Alloc, Let, Stmt, Store, TileOp
from ...records import dataclass
from ...source.span import Span
from ..bulk.images import image_start, image_tile
from ..bulk.lower import map_of_copy
from ..bulk.tensor_map import TensorMap
from ..context import PassContext
from ..matrix.exact import multiplied_in_tf32
from ..matrix.wgmma_functions import UNIFORM
from .plan import WARP, Group, LoopPlan


@dataclass
class Ring:
    """``tiles``: the buffer with a leading dimension of stages that each copied tile became."""

    group: Group
    full: Buffer
    empty: Buffer
    tiles: dict[Buffer, Buffer] = field(default_factory=dict)


@dataclass(eq=False)
class Place:
    """Where one side is: variables that live through the kernel, and their values in the present iteration."""

    stages: int
    span: Span | None
    stage: Buffer
    phase: Buffer
    now: Var
    parity: Var
    uniform: bool = False  # the compiler is told that all lanes agree on the stage, which it cannot see where loops are nested or of computed length

    @staticmethod
    def make(name: str, stages: int, span: Span | None, ctx: PassContext) -> Place:
        def variable(what: str) -> Buffer:
            return Buffer(ctx.fresh(f"{name}_{what}"), (const(1),), "int32", VAR, span)

        return Place(stages, span, variable("stage"), variable("phase"), Var("int32", span, f"{name}_now", "let"), Var("int32", span, f"{name}_parity", "let"))

    def sibling(self, name: str) -> Place:
        """The same variables, their values under other names."""
        return Place(self.stages, self.span, self.stage, self.phase, Var("int32", self.span, f"{name}_now", "let"),
                     Var("int32", self.span, f"{name}_parity", "let"), self.uniform)

    def start(self) -> list[Stmt]:
        return [x for b in (self.stage, self.phase) for x in (Alloc(self.span, b), Store(self.span, b, (const(0),), const(0)))]

    def enter(self) -> list[Stmt]:
        stage = _value(self.stage)
        stage = UNIFORM.within(0, self.stages - 1, stage) if self.uniform and self.stages > 1 else stage
        return [Let(self.span, self.now, stage), Let(self.span, self.parity, _value(self.phase))]

    def advance(self) -> list[Stmt]:
        if self.stages == 1:
            return [self._set(self.phase, binary("bitxor", self.parity, const(1)))]
        last = binary("eq", self.now, const(self.stages - 1))
        return [self._set(self.phase, select(last, binary("bitxor", self.parity, const(1)), self.parity)),
                self._set(self.stage, select(last, const(0), self.now + 1))]

    def _set(self, b: Buffer, value: Expr) -> Store:
        return Store(self.span, b, (const(0),), value)

    def before(self, now: Expr | None = None) -> Expr:
        """The stage of the iteration before."""
        now = self.now if now is None else now
        return const(0) if self.stages == 1 else select(binary("eq", now, const(0)), const(self.stages - 1), now - 1)

    def latest(self) -> Expr:
        """After the loop: the stage of its last iteration."""
        return self.before(_value(self.stage))


def _value(b: Buffer) -> Expr:
    return Load("int32", None, b, (const(0),))


def make_rings(plan: LoopPlan, warps: int, ctx: PassContext) -> list[Ring]:
    found: list[Ring] = []
    for group in plan.groups:
        names = "_".join(op.region("dst").buffer.name for op in group.copies[:2])
        full = _barrier(ctx.fresh(f"{names}_full"), plan.stages, 1, plan.loop.span)
        empty = _barrier(ctx.fresh(f"{names}_empty"), plan.stages, warps, plan.loop.span)
        ring = Ring(group, full, empty)
        for op in group.copies:
            old = op.region("dst").buffer
            attrs = {**old.attrs, "ring": True, "rounded": multiplied_in_tf32(old, plan.loop.body, warps * WARP, ctx.target)}
            ring.tiles[old] = Buffer(old.name, (const(plan.stages), *old.shape), old.dtype, old.scope, old.span, attrs=attrs)
        found.append(ring)
    return found


def _barrier(name: str, count: int, arrivals: int, span: Span | None) -> Buffer:
    return Buffer(name, (const(count),), "uint64", BARRIER, span, attrs={"arrive_counts": [arrivals] * count})


@dataclass
class Single:
    """A copy outside the loops. With ``place`` it comes again with every tile of a block that stays, and ``empty`` says when it may."""

    op: TileOp
    full: Buffer
    empty: Buffer | None
    places: tuple[Place, Place] | None  # of producer and consumers

    @staticmethod
    def make(op: TileOp, warps: int, again: bool, ctx: PassContext) -> Single:
        name = op.region("dst").buffer.name
        full = _barrier(ctx.fresh(f"{name}_full"), 1, 1, op.span)
        if not again:
            return Single(op, full, None, None)
        places = (Place.make(name, 1, op.span, ctx), Place.make(name, 1, op.span, ctx))
        return Single(op, full, _barrier(ctx.fresh(f"{name}_empty"), 1, warps, op.span), places)

    @property
    def tile(self) -> Buffer:
        return self.op.region("dst").buffer

    def barriers(self) -> list[Buffer]:
        return [self.full] if self.empty is None else [self.full, self.empty]

    def start(self, side: int) -> list[Stmt]:
        return [] if self.places is None else self.places[side].start()

    def produce(self) -> list[Stmt]:
        copy = fill([self.op], self.full, const(0), {}, self.op.span)
        if self.places is None or self.empty is None:
            return [copy]
        place = self.places[0]
        return [*place.enter(), wait(self.empty, const(0), binary("bitxor", place.parity, const(1)), self.op.span), copy, *place.advance()]

    def arrive(self) -> list[Stmt]:
        if self.places is None:
            return [wait(self.full, const(0), const(0), self.op.span)]
        place = self.places[1]
        return [*place.enter(), wait(self.full, const(0), place.parity, self.op.span)]

    def leave(self) -> list[Stmt]:
        if self.places is None or self.empty is None:
            return []
        return [TileOp(self.op.span, "bulk_release", {"mbar": barrier_at(self.empty, const(0), self.op.span)}), *self.places[1].advance()]


def barrier_at(b: Buffer, stage: Any, span: Span | None) -> Region:
    return Region(b, (stage if isinstance(stage, Expr) else const(stage),), (const(1),), "element", span)


def wait(b: Buffer, stage: Any, parity: Any, span: Span | None) -> TileOp:
    return TileOp(span, "mbarrier_wait_parity", {"mbar": barrier_at(b, stage, span), "parity": parity if isinstance(parity, Expr) else const(parity)})


def release(ring: Ring, stage: Expr, span: Span | None) -> TileOp:
    return TileOp(span, "bulk_release", {"mbar": barrier_at(ring.empty, stage, span)})


def maps(rings: dict[int, list[Ring]], single: Iterable[Single]) -> list[TensorMap]:
    """The tensor maps of all copies."""
    staged = [(op, r.tiles) for found in rings.values() for r in found for op in r.group.copies]
    return [map_of_copy(op if op.op == "im2col" else _into_stage(op, tiles)) for op, tiles in staged] + [map_of_copy(x.op) for x in single]


def _into_stage(op: TileOp, tiles: dict[Buffer, Buffer]) -> TileOp:
    dst = op.region("dst")
    return replace(op, args={**op.args, "dst": Region(tiles[dst.buffer], (const(0), *dst.mins), (const(1), *dst.extents), "slice", dst.span)})


def fill(copies: list[TileOp], full: Buffer, stage: Any, tiles: dict[Buffer, Buffer], span: Span | None) -> TileOp:
    """Start a group's copies into a stage."""
    args: dict[str, Any] = {"mbar": barrier_at(full, stage, span)}
    for k, op in enumerate(copies):
        dst = op.region("dst")
        args[f"src{k}"] = op.region("src")
        new = tiles.get(dst.buffer)
        args[f"dst{k}"] = dst if new is None else Region(new, (stage, *dst.mins), (const(1), *dst.extents), "slice", dst.span)
        if op.op == "im2col":
            args[f"image{k}"] = image_tile(op)
            args.update((f"start{k}_{i}", e) for i, e in enumerate(image_start(op)))
    spans = {f"src{k}": op.span for k, op in enumerate(copies) if op.span is not None}
    return TileOp(copies[0].span, "bulk_fill", args, spans)
