"""Atomic updates of whole tiles by the copy engine (PTX ISA, "cp.reduce.async.bulk.tensor"): one thread hands over a shared tile.

A fragment goes through a shared tile where memory is left for it. What the instruction cannot do stays a loop of atomics of all threads.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.buffer import FRAGMENT, GLOBAL, SHARED_DYN, Buffer, Region, tile_shape, whole
from ...ir.expr import Call, Load
from ...ir.expr import walk as walk_expr
from ...ir.program import TileProgram
from ...ir.stmt import Alloc, Body, Launch, Stmt, Store, TileOp, expressions
from ...ir.stmt import walk as walk_statements
from ..ahead import accesses
from ..configs import NO_TMA, is_set
from ..context import LaunchState, PassContext
from ..matrix.shape import MATRIX_OPS
from .tensor_map import bulk_tile
from .uniform import UniformStatements, handed_on

_SPARE = 2048  # bytes of shared memory for barriers and the system
_INTEGERS = ("int32", "uint32", "int64", "uint64")
# PTX ISA, "cp.reduce.async.bulk": the element types of each operation on global memory. Floats of 64 bits, and the minimum and maximum of floats, which
# treat what is no number otherwise than a comparison does, stay with the threads.
KINDS: dict[str, tuple[str, ...]] = {"add": ("float16", "bfloat16", "float32", *_INTEGERS), "max": _INTEGERS, "min": _INTEGERS}


def reduce_in_bulk(program: TileProgram, ctx: PassContext) -> TileProgram:
    if not ctx.target.tma or not any(_is_tile(s) for s in walk_statements(program.body)):
        return program
    refusal = f"pass_configs set tl.{NO_TMA}" if is_set(program, NO_TMA) else ""
    tensors = {p for p in program.params if isinstance(p, Buffer)}
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        if isinstance(s, Launch) and any(_is_tile(x) for x in walk_statements(s.body)):
            s = replace(s, body=BulkReductions(s, ctx.state(number, s), tensors, refusal).rewritten())
        out.append(s)
    return replace(program, body=tuple(out))


def _is_tile(s: Stmt) -> bool:
    return isinstance(s, TileOp) and s.op == "atomic" and isinstance(s.args.get("src"), Region) and s.args["kind"] in KINDS and bool(tile_shape(s.region("dst")))


class BulkReductions(UniformStatements):
    """``refusal``: why there are none in the whole program."""

    def __init__(self, launch: Launch, state: LaunchState, tensors: set[Buffer], refusal: str) -> None:
        super().__init__(launch, state)
        self.tensors, self.refusal = tensors, refusal
        body = launch.body
        shared = {x.buffer for x in walk_statements(body) if isinstance(x, Alloc) and x.buffer.is_shared() and x.buffer.view_of is None}
        sizes = [b.size_bytes() for b in shared]
        self.room = 0 if None in sizes else state.target.shared_bytes - _SPARE - sum(b or 0 for b in sizes)
        self.tied = {*handed_on(body), *_operands(body)}
        self.otherwise = {b.storage() for s in walk_statements(body) for b in _used_otherwise(s)}
        self.meets = _meets_blocks(body)

    def replacement(self, s: TileOp, rest: Body, threads: int, problem: str) -> list[Stmt] | None:
        if not _is_tile(s) or s.region("dst").buffer.scope != GLOBAL:
            return None
        src, dst = s.region("src"), s.region("dst")
        what = f"atomic {s.args['kind']} to {dst.buffer.name}"
        if s.args.get("use_tma") is not True:
            self.state.decide(s.span, what, "atomics by all threads", "use_tma=True is not given")
            return [s]
        staged = Buffer(self.state.passes.fresh(f"{src.buffer.name}_out"), tile_shape(dst), dst.dtype, SHARED_DYN, s.span) if self._is_staged(src, dst) else None
        shared = src if staged is None else whole(staged)
        problem = self.refusal or problem or self._unfit(s, dst) or self._no_source(src, staged)
        tile = problem or bulk_tile(dst, shared, self.safe)
        if isinstance(tile, str):
            self.state.decide(s.span, what, "atomics by all threads", tile)
            return [s]
        self.state.bulk.add(shared.buffer)
        reduction = replace(s, op="bulk_reduce", args={"src": shared, "dst": dst, "kind": s.args["kind"], "completes": self.meets})
        if staged is None:
            self.state.decide(s.span, what, "bulk tensor reduction (TMA)")
            return [reduction]
        self.room -= staged.size_bytes() or 0
        self.state.decide(s.span, what, "through shared memory, then bulk tensor reduction (TMA)")
        return [Alloc(s.span, staged), TileOp(s.span, "copy", {"src": src, "dst": shared}), reduction]

    def _is_staged(self, src: Region, dst: Region) -> bool:
        """Fragments, and tiles of another type: an atomic converts."""
        return src.buffer.scope == FRAGMENT or src.dtype != dst.dtype

    def _no_source(self, src: Region, staged: Buffer | None) -> str:
        if staged is not None:
            size = staged.size_bytes()
            return "its extents are not constant" if size is None else f"{size} bytes of shared memory are not left for it" if size > self.room else ""
        return self._tied(src.buffer)

    def _tied(self, b: Buffer) -> str:
        return f"{b.name} has views, is an operand of a matrix operation or is handed on by its address" if b.storage() in self.tied else ""

    def _unfit(self, s: TileOp, dst: Region) -> str:
        kind = s.args["kind"]
        if dst.dtype not in KINDS[kind]:
            return f"the copy engine has no {kind} of {dst.dtype}"
        if s.args.get("memory_order") not in (None, "relaxed"):
            return "it is to be ordered with other accesses"
        if dst.buffer not in self.tensors:
            return f"{dst.buffer.name} is no parameter"
        if dst.buffer.storage() in self.otherwise:
            return f"the kernel uses {dst.buffer.name} otherwise too"
        return self.place_problem(dst.mins)


def _operands(body: Body) -> Iterator[Buffer]:
    for s in walk_statements(body):
        if isinstance(s, TileOp) and s.op in MATRIX_OPS:
            yield from (v.buffer.storage() for v in s.args.values() if isinstance(v, Region))


def _used_otherwise(s: Stmt) -> list[Buffer]:
    """What a statement accesses, but for what it only adds to and the like."""
    if isinstance(s, TileOp) and s.op == "atomic":
        src = s.args.get("src")
        return [*((src.buffer,) if isinstance(src, Region) else ()), *(x.buffer for e in expressions(s) for x in walk_expr(e) if isinstance(x, Load))]
    return [b for found in accesses(s) for b in found]


def _meets_blocks(body: Body) -> bool:
    """Whether other blocks may be told by this one that the tile was added: then it must have arrived, not only have been read."""
    for s in walk_statements(body):
        if isinstance(s, TileOp) and (s.op == "sync_grid" or (s.op == "atomic" and not _is_tile(s))):
            return True
        if isinstance(s, Store) and s.buffer.storage().scope == GLOBAL:
            return True
        if any(isinstance(x, Call) and (x.op.startswith("atomic_") or (x.attrs or {}).get("external")) for e in expressions(s) for x in walk_expr(e)):
            return True
    return False
