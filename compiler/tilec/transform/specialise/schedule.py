"""When the asynchronous matrix operations of a loop's body are waited for, and its stages given back.

A warpgroup's operations complete in the order they were started. One is waited for before the first statement that touches its
accumulator or overwrites its operands, be that in the next iteration, and at the latest once the same operation of the next iteration
was started: so the tensor cores are never without work that could have been given to them.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from ...ir.buffer import FRAGMENT, Buffer, Region, whole
from ...ir.build import const_value
from ...ir.stmt import Stmt, TileOp
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ...target.chips import Target
from ..ahead import accesses
from ..matrix.instruction import plan as plan_matrix
from ..matrix.problem import MatrixProblem
from ..matrix.shape import matrix_shape


def starts_wgmma(s: Stmt, threads: int, target: Target) -> bool:
    """Whether a statement is a matrix operation that can be left running."""
    if not isinstance(s, TileOp) or s.op != "gemm" or isinstance(s.args.get("mbar"), Region):
        return False
    clear = s.args.get("clear_accum")
    if clear is not None and const_value(clear) is None:
        return False
    try:
        shape = matrix_shape(s)
    except MatrixProblem:
        return False
    region = s.region("C")
    return bool(plan_matrix(shape, threads, target).wgmma) and region.is_whole() and region.buffer.view_of is None


@dataclass
class Running:
    """An operation that was started. ``before``: in the iteration before; ``gives_back``: what its completion lets go of."""

    op: TileOp
    position: int
    before: bool = False
    gives_back: list[Any] = field(default_factory=list)

    def conflicts(self, s: Stmt) -> bool:
        c = self.op.region("C").buffer.storage()
        operands = {self.op.region(n).buffer.storage() for n in ("A", "B")}
        for inner in walk_statements((s,)):
            reads, writes = accesses(inner)
            if any(b.storage() is c for b in (*reads, *writes)) or any(b.storage() in operands for b in writes):
                return True
        return False


Emit = Callable[[Running], list[Stmt]]


class Scheduler:
    """Walks a loop's body. ``releases``: by position, what a statement is the last to read; ``give_back`` makes the statements for it."""

    def __init__(self, body: tuple[Stmt, ...], releases: dict[int, list[Any]], waits: dict[int, list[Stmt]], give_back: Callable[[Any, bool], list[Stmt]],
                 threads: int, target: Target) -> None:
        self.body, self.releases, self.waits, self.give_back = body, releases, waits, give_back
        self.starts = [starts_wgmma(s, threads, target) for s in body]

    def straight(self) -> list[Stmt]:
        """The statements run once, with nothing running before or after."""
        out, left = self._walk([])
        return out + (self._wait(left, len(left) - 1) if left else [])

    def finishing(self) -> tuple[list[Stmt], list[Running]]:
        """The statements run once; what runs on is told."""
        return self._walk([])

    def run(self, carries: bool = True) -> tuple[list[Stmt], list[Running]]:
        """The body of an iteration, and what runs on when it is over: nothing unless it ``carries``."""
        if not carries:
            return self.straight(), []
        _, left = self._walk([])
        out, again = self._walk([replace(r, before=True) for r in left])
        if [r.position for r in again] != [r.position for r in left]:
            out += self._wait(again, len(again) - 1)
            again = []
        return out, again

    def _walk(self, running: list[Running]) -> tuple[list[Stmt], list[Running]]:
        out: list[Stmt] = []
        for i, s in enumerate(self.body):
            out += self.waits.get(i, [])
            starts = self.starts[i]
            hit = [k for k, r in enumerate(running) if not (starts and self._accumulates(r, s)) and r.conflicts(s)]
            if hit:
                out += self._wait(running, hit[-1])
            if starts:
                assert isinstance(s, TileOp)
                out.append(replace(s, args={**s.args, "asynchronous": True}))
                earlier = [k for k, r in enumerate(running) if r.position == i]
                running.append(Running(s, i, False, list(self.releases.get(i, ()))))
                if earlier:
                    out += self._wait(running, earlier[-1])
                continue
            out.append(s)
            if self.releases.get(i):
                readers = [k for k, r in enumerate(running) if not r.before]
                if readers:
                    out += self._wait(running, readers[-1])
                for what in self.releases[i]:
                    out += self.give_back(what, False)
        return out, running

    def _accumulates(self, r: Running, s: Stmt) -> bool:
        """Additions to the same accumulator need no waiting between them."""
        assert isinstance(s, TileOp)
        return r.op.region("C").buffer is s.region("C").buffer

    def _wait(self, running: list[Running], last: int) -> list[Stmt]:
        """Wait for the operations up to ``last``, which leave the list."""
        done, rest = running[: last + 1], running[last + 1:]
        out: list[Stmt] = [wait_for(done, rest)]
        for r in done:
            for what in r.gives_back:
                out += self.give_back(what, r.before)
        running[:] = rest
        return out


def wait_for(done: list[Running], rest: list[Running]) -> TileOp:
    """``kept``: accumulators that may be touched from here on; ``read``: operands in registers that may be overwritten."""
    still = {r.op.region("C").buffer for r in rest}
    kept: dict[Buffer, None] = dict.fromkeys(b for r in done if (b := r.op.region("C").buffer) not in still)
    read: dict[Buffer, None] = dict.fromkeys(r.op.region("A").buffer for r in done if r.op.region("A").buffer.scope == FRAGMENT)
    args: dict[str, Any] = {"count": len(rest)}
    args.update({f"kept{k}": whole(b) for k, b in enumerate(kept)})
    args.update({f"read{k}": whole(b) for k, b in enumerate(read)})
    return TileOp(done[-1].op.span, "wgmma_wait", args)
