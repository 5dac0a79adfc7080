"""T.tma_copy before an arrival of every thread that copies: nobody waits, the barrier does.

Each of the threads arrives itself once its part of the copy was started. cp.async.mbarrier.arrive makes the phase wait for that part too: it adds an
arrival that is due, which completes with the thread's copies (PTX ISA). The phase cannot end before the thread's own arrival, so the barrier is the
right one; where others arrive for the threads that copy, these have to wait for each other instead.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.buffer import Region
from ..ir.build import const_int
from ..ir.expr import equal
from ..ir.program import TileProgram
from ..ir.stmt import Body, For, If, Launch, Role, Stmt, TileOp
from ..target.chips import Target
from .rewrite import map_children

JOINED = "arrives_itself"


def join_arrivals(program: TileProgram, target: Target) -> TileProgram:
    if target.kind != "cuda" or target.sm < 80:
        return program
    return replace(program, body=tuple(_launch(s) if isinstance(s, Launch) else s for s in program.body))


def _launch(s: Launch) -> Launch:
    count: int | None = 1
    for e in s.threads:
        extent = const_int(e)
        count = None if count is None or extent is None else count * extent
    return replace(s, body=_body(s.body, count))


def _body(body: Body, threads: int | None) -> Body:
    """``threads``: how many run the statements, all of them together; None if that is not known."""
    out: list[Stmt] = []
    for i, s in enumerate(body):
        if isinstance(s, TileOp):
            out.append(replace(s, args={**s.args, JOINED: True}) if s.op == "tma_copy" and _joined(s, body[i + 1:], threads) else s)
        elif isinstance(s, Role):
            out.append(map_children(s, lambda inner, n=s.high - s.low: _body(inner, n)))  # type: ignore[misc]
        elif isinstance(s, For):
            out.append(map_children(s, lambda inner: _body(inner, threads)))
        elif isinstance(s, If):
            out.append(map_children(s, lambda inner: _body(inner, None)))
        else:
            out.append(s)
    return tuple(out)


def _joined(s: TileOp, after: Body, threads: int | None) -> bool:
    barrier = s.args.get("barrier")
    if threads is None or not isinstance(barrier, Region) or not s.region("dst").buffer.is_shared() or not _each_arrives(barrier, threads):
        return False
    for x in after:
        if not isinstance(x, TileOp):
            return False
        if x.op == "mbarrier_arrive":
            return _same(x.args.get("mbar"), barrier) and x.args.get("count") in (None, 1) and x.args.get("cta_id") is None
        if x.op != "tma_copy" or not _same(x.args.get("barrier"), barrier):
            return False
    return False


def _each_arrives(barrier: Region, threads: int) -> bool:
    """Whether a phase takes one arrival of each of the threads, and of no others."""
    counts = barrier.buffer.attrs.get("arrive_counts") or [1]
    return all(isinstance(c, int) and c == threads for c in counts)


def _same(a: Any, b: Region) -> bool:
    return isinstance(a, Region) and a.buffer is b.buffer and len(a.mins) == len(b.mins) and all(map(equal, a.mins, b.mins))
