"""Fences between what threads write to shared memory and what the tensor cores or the copy engine read of it.

The writing threads order their stores before asynchronous reads (PTX ISA, fence.proxy.async), then all wait at the barrier that the
exchange needs anyway. Tiles that bulk copies bring need no fence.
"""
from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import Buffer
from ...ir.stmt import Body, For, If, Jump, Parallel, Stmt, Store, TileOp, While
from ...ir.stmt import walk as walk_statements
from ...target.chips import Target
from ..ahead import accesses
from ..rewrite import map_children
from .schedule import starts_wgmma


def fence_shared_operands(body: Body, brought: set[Buffer], threads: int, target: Target) -> Body:
    """``brought``: tiles that bulk copies bring; rings are known by their mark."""
    read: set[Buffer] = set()
    for s in walk_statements(body):
        if isinstance(s, TileOp) and (s.op == "bulk_store" or starts_wgmma(s, threads, target)):
            names = ("src",) if s.op == "bulk_store" else ("A", "B")
            read |= {b for n in names if (b := s.region(n).buffer).is_shared() and b not in brought and not b.attrs.get("ring")}
    if any(b.view_of is not None for b in read):
        return body  # fences stay where the operands are read

    def visit(statements: Body) -> Body:
        out: list[Stmt] = []
        for s in statements:
            s = s if isinstance(s, Parallel) or _writes_last(s, read) else map_children(s, visit)
            if starts_wgmma(s, threads, target):
                assert isinstance(s, TileOp)
                s = replace(s, args={**s.args, "fenced": True})
            out.append(s)
            if _writes(s, read):
                out.append(TileOp(s.span, "fence_proxy_async", {}))
        return tuple(out)

    return visit(body)


def _writes(s: Stmt, read: set[Buffer]) -> bool:
    if isinstance(s, (For, While, If)) and not _writes_last(s, read):  # the statements inside are fenced themselves
        return False
    return any(b.storage() in read for inner in walk_statements((s,)) for b in accesses(inner)[1])


def _writes_last(s: Stmt, read: set[Buffer]) -> bool:
    """Whether a loop writes such tiles with its last statement only: that is what the barrier behind the loop waits for, so one fence behind it does.

    No operator inside may hand over what was written so far.
    """
    if not isinstance(s, For) or not s.body or any(isinstance(x, (TileOp, Jump, If, While)) for x in walk_statements(s.body)):
        return False
    *before, last = s.body
    if any(b.storage() in read for x in walk_statements(tuple(before)) for b in accesses(x)[1]):
        return False
    return isinstance(last, (Store, Parallel)) or _writes_last(last, read)
