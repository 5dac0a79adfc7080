"""``T.tma_copy`` to shared memory by the copy engine, in kernels that keep their own barriers.

One thread of those that run it tells the barrier how many bytes come and starts the copies; it does not arrive: that is left to the program, whose arrivals
end the phase together with the bytes. Where the thread may not be among those that arrive, all wait until it has told the barrier.
"""
from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import GLOBAL, Buffer, Region
from ...ir.build import const_int
from ...ir.program import TileProgram
from ...ir.stmt import Body, Launch, Stmt, TileOp
from ...ir.stmt import walk as walk_statements
from ..ahead import accesses
from ..configs import NO_TMA, is_set
from ..context import LaunchState, PassContext
from .lower import map_of_copy
from .tensor_map import bulk_tile
from .uniform import UniformStatements, handed_on


def copy_in_bulk(program: TileProgram, ctx: PassContext) -> TileProgram:
    if not ctx.target.wgmma or not any(_is_asked(s) for s in walk_statements(program.body)):
        return program
    refusal = f"pass_configs set tl.{NO_TMA}" if is_set(program, NO_TMA) else ""
    tensors = {p for p in program.params if isinstance(p, Buffer)}
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        if isinstance(s, Launch) and any(_is_asked(x) for x in walk_statements(s.body)):
            copies = AskedCopies(s, ctx.state(number, s), tensors, refusal)
            body = copies.rewritten()
            maps = [*s.attrs.get("described", ()), *map(map_of_copy, copies.made)]
            s = replace(s, body=body, attrs={**s.attrs, "described": maps})
        out.append(s)
    return replace(program, body=tuple(out))


def _is_asked(s: Stmt) -> bool:
    return isinstance(s, TileOp) and s.op == "tma_copy" and s.region("dst").buffer.is_shared()


class AskedCopies(UniformStatements):
    """``refusal``: why there are none in the whole program."""

    def __init__(self, launch: Launch, state: LaunchState, tensors: set[Buffer], refusal: str) -> None:
        super().__init__(launch, state)
        self.tensors = tensors
        self.refusal = refusal or self._cluster()
        self.handed_on = set(handed_on(launch.body))
        self.written = {b.storage() for s in walk_statements(launch.body) for b in accesses(s)[1] if not _is_asked(s)}
        self.made: list[TileOp] = []

    def _cluster(self) -> str:
        dims = self.launch.attrs.get("cluster_dims")
        alone = dims is None or all(e in (1, None) for e in ([dims] if isinstance(dims, int) else dims))
        return "" if alone else "the blocks form clusters"

    def replacement(self, s: TileOp, rest: Body, threads: int, problem: str) -> list[Stmt] | None:
        if not _is_asked(s):
            return None
        src, dst, barrier = s.region("src"), s.region("dst"), s.args.get("barrier")
        what = f"copy to {dst.buffer.name}"
        problem = self.refusal or problem or self._unfit(src, dst, barrier)
        tile = problem or bulk_tile(src, dst, self.safe)
        if isinstance(tile, str):
            self.state.decide(s.span, what, "loads and stores by all threads", tile)
            return [s]
        assert isinstance(barrier, Region)
        self.state.decide(s.span, what, "bulk tensor copy (TMA)")
        self.state.bulk.add(dst.buffer)
        self.made.append(s)
        load: list[Stmt] = [replace(s, op="bulk_load", args={"src": src, "dst": dst, "mbar": barrier, "fences": dst.buffer in self.written})]
        return load if _all_arrive(barrier.buffer, rest, threads) else [*load, TileOp(s.span, "sync_threads", {})]

    def _unfit(self, src: Region, dst: Region, barrier: object) -> str:
        if not isinstance(barrier, Region):
            return "no barrier is given"
        if src.buffer.scope != GLOBAL or src.buffer.storage() not in self.tensors:
            return f"{src.buffer.name} is no parameter"
        if src.buffer.storage() in self.written:
            return f"the kernel writes {src.buffer.name} too"
        if dst.buffer.storage() in self.handed_on:
            return f"{dst.buffer.name} has views or is handed on by its address"
        return self.place_problem((*src.mins, *dst.mins, *barrier.mins))


def _all_arrive(barriers: Buffer, rest: Body, threads: int) -> bool:
    """Whether a phase cannot end before each thread of the group has arrived, which they all do behind the copy."""
    counts = barriers.attrs.get("arrive_counts")
    if not counts or any((const_int(c) or 0) < threads if not isinstance(c, int) else c < threads for c in counts):
        return False
    return any(isinstance(x, TileOp) and x.op == "mbarrier_arrive" and x.region("mbar").buffer is barriers for x in rest)
