"""Hopper: matrix operations run on while the statements behind them do other work, in kernels that no warp copies for.

An operation is waited for before the first statement that touches its accumulator or overwrites its operands, and before everything that other
threads may learn from: barriers, conditions, loops. One with a small accumulator is started as early as what it reads allows, behind the operation
before it, so that the tensor cores go on while the threads compute with the first one's result.
"""
from __future__ import annotations

from dataclasses import replace

from ..ir.buffer import FRAGMENT, Region, whole
from ..ir.build import const_int
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Launch, Let, Parallel, Role, Stmt, Store, TileOp, While
from ..ir.stmt import walk as walk_statements
from ..target.chips import Target
from .ahead import accesses
from .context import PassContext
from .matrix.shape import MATRIX_OPS
from .rewrite import map_children
from .specialise.schedule import Running, starts_wgmma, wait_for

_HARMLESS = ("copy", "fill", "clear", "reduce", "transpose", *MATRIX_OPS)
_SMALL = 32  # elements of an accumulator in each thread, up to which it may live longer than it is used


def overlap_products(program: TileProgram, ctx: PassContext) -> TileProgram:
    if not ctx.target.wgmma:
        return program
    return replace(program, body=tuple(_launch(s, ctx) if isinstance(s, Launch) else s for s in program.body))


def _launch(s: Launch, ctx: PassContext) -> Launch:
    threads = 1
    for e in s.threads:
        threads *= const_int(e) or 0
    if not threads or any(isinstance(x, TileOp) and x.op == "wgmma_wait" for x in walk_statements(s.body)):
        return s  # specialised: scheduled already
    return replace(s, body=_Overlap(threads, ctx.target).body(s.body))


class _Overlap:
    def __init__(self, threads: int, target: Target) -> None:
        self.threads, self.target = threads, target

    def body(self, body: Body) -> Body:
        starts = {id(s) for s in body if self._starts(s)}
        if starts:
            body = self._early(body, starts)
        running: list[Running] = []
        out: list[Stmt] = []
        fenced = False  # whether the copy engine's side of memory knows what the threads have written
        for i, s in enumerate(body):
            hit = [k for k, r in enumerate(running) if self._ends(r, s, id(s) in starts)]
            if hit:
                out += _wait(running, hit[-1])
            if id(s) in starts:
                assert isinstance(s, TileOp)
                out.append(replace(s, args={**s.args, "asynchronous": True, **({"fenced": True} if fenced else {})}))
                running.append(Running(s, i))
                fenced = True
            else:
                fenced = fenced and _writes_registers(s)
                out.append(self._inside(s))
        return (*out, *(_wait(running, len(running) - 1) if running else ()))

    def _starts(self, s: Stmt) -> bool:
        if not isinstance(s, TileOp) or s.op not in ("gemm", "wgmma_gemm") or s.args.get("asynchronous") is not None:
            return False
        return starts_wgmma(replace(s, op="gemm"), self.threads, self.target)

    def _inside(self, s: Stmt) -> Stmt:
        if isinstance(s, Role):
            return map_children(s, _Overlap(s.high - s.low, self.target).body)
        return map_children(s, self.body) if isinstance(s, (For, If, While)) else s

    @staticmethod
    def _ends(r: Running, s: Stmt, starts: bool) -> bool:
        """Whether an operation must be over before a statement."""
        if starts and isinstance(s, TileOp) and r.op.region("C").buffer is s.region("C").buffer:
            return False  # additions to the same accumulator need no waiting between them
        return not _is_harmless(s) or r.conflicts(s)

    def _early(self, body: Body, starts: set[int]) -> Body:
        """Small operations moved up to the one before them, over what neither makes nor uses anything of theirs."""
        out: list[Stmt] = []
        for s in body:
            place = len(out)
            if id(s) in starts and isinstance(s, TileOp) and self._is_small(s):
                while place and id(out[place - 1]) not in starts and _may_pass(s, out[place - 1]):
                    place -= 1
                if not place or id(out[place - 1]) not in starts:
                    place = len(out)  # there is nothing that it would run behind
            out.insert(place, s)
        return tuple(out)

    def _is_small(self, s: TileOp) -> bool:
        size = 1
        for e in s.region("C").buffer.shape:
            size *= const_int(e) or self.threads * _SMALL + 1
        return size <= self.threads * _SMALL


def _is_harmless(s: Stmt) -> bool:
    """Statements that tell other threads nothing."""
    if isinstance(s, TileOp):
        return s.op in _HARMLESS and not isinstance(s.args.get("mbar"), Region)
    return isinstance(s, (Parallel, Store, Let, Alloc)) and all(
        not isinstance(x, (Evaluate, While)) and (not isinstance(x, TileOp) or x.op == "atomic") for x in walk_statements((s,)))


def _writes_registers(s: Stmt) -> bool:
    """Whether a statement leaves shared memory, and what is known of it, as it is."""
    if isinstance(s, TileOp) and s.op == "wait_wgmma":
        return True
    return _is_harmless(s) and all(b.storage().scope == FRAGMENT for x in walk_statements((s,)) for b in accesses(x)[1])


def _may_pass(s: TileOp, before: Stmt) -> bool:
    """Whether an operation may be started before a statement that now comes first."""
    if not _is_harmless(before) or isinstance(before, (Let, Alloc)) or (isinstance(before, TileOp) and before.op in MATRIX_OPS):
        return False
    c = s.region("C").buffer.storage()
    operands = {s.region(n).buffer.storage() for n in ("A", "B")}
    for inner in walk_statements((before,)):
        reads, writes = accesses(inner)
        if any(b.storage() is c for b in (*reads, *writes)) or any(b.storage() in operands for b in writes):
            return False
    return True


def _wait(running: list[Running], last: int) -> list[Stmt]:
    """Wait for the operations up to ``last``, which leave the list; until then their operands in shared memory are in use."""
    done, running[:] = running[:last + 1], running[last + 1:]
    wait = wait_for(done, running)
    shared = dict.fromkeys(b for r in done for n in ("A", "B") if (b := r.op.region(n).buffer).is_shared())
    return [replace(wait, args={**wait.args, **{f"held{k}": whole(b) for k, b in enumerate(shared)}})]
