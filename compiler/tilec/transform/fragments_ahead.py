"""Small pieces of tensors that threads keep in registers, a mask or a bias, are loaded an iteration before they are needed.

Nothing else hides how long such a load takes: the loop's other copies are in flight, but this one would be waited for in every iteration::

    copy(tensor at 0, next)
    for k:
        ...
        copy(next, mine)
        if there is an iteration k + 1:
            copy(tensor at k + 1, next)
        ...
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, Buffer, whole
from ..ir.build import binary, const_int
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, For, If, Launch, Let, Parallel, Stmt, TileOp, bodies, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .ahead import accesses, count_uses, has_jump, loop_facts, moved_copy, reads_asynchronously
from .context import PassContext
from .rewrite import map_own

_MOST_ELEMENTS = 128
_MOST_ADDED = 32  # registers of a thread that loads which come early may take
_MOST_REGISTERS = 176  # of a thread, in fragments: there must be room for one more copy of a small one


def fragments_ahead(launch: Launch, ctx: PassContext) -> Launch:
    """The kernel's pipelined loops at its top, with their small loads an iteration early."""
    if not any(isinstance(s, For) and s.kind == "pipelined" for s in launch.body) or not fragment_words(launch).have_room(()):
        return launch
    uses = count_uses(launch.body)
    written = {b.storage() for s in walk_statements(launch.body) for b in accesses(s)[1]}
    out: list[Stmt] = []
    for s in launch.body:
        out += _loop(s, uses, written, ctx) if isinstance(s, For) and s.kind == "pipelined" else (s,)
    return replace(launch, body=tuple(out))


@dataclass
class Words:
    """32-bit registers that the fragments of ``threads`` threads take, all together and if nothing is held twice."""

    fragments: int
    threads: int

    def of_group(self, threads: int) -> Words:
        return Words(self.fragments, threads)

    def have_room(self, more: Iterable[Buffer]) -> bool:
        """For further fragments, and what threads need besides."""
        added = sum((b.size_bytes() or 4 * _MOST_REGISTERS * self.threads) // 4 for b in more)
        return self.threads > 0 and added // self.threads <= _MOST_ADDED and (self.fragments + added) // self.threads <= _MOST_REGISTERS


def fragment_words(launch: Launch) -> Words:
    words = sum((x.buffer.size_bytes() or 0) // 4 for x in walk_statements(launch.body)
                if isinstance(x, Alloc) and x.buffer.scope == FRAGMENT and x.buffer.view_of is None)
    return Words(words, math.prod(const_int(t) or 0 for t in launch.threads))


def _loop(s: For, uses: dict[Buffer, int], written: set[Buffer], ctx: PassContext) -> Body:
    stages = s.attrs.get("num_stages") or 0
    if not isinstance(stages, int) or stages < 2 or has_jump(s.body) or reads_asynchronously(s.body):
        return (s,)
    facts, inside = loop_facts(s), count_uses(s.body)
    before: list[Stmt] = []
    body: list[Stmt] = []
    for i, x in enumerate(s.body):
        op = moved_copy(x, i, s, facts, inside, uses) if isinstance(x, TileOp) and x.op == "copy" and _is_small(x) else None
        if op is None or op.region("src").buffer.storage() in written or not _is_shared_out(op.region("dst").buffer, s.body, ()):
            body.append(x)
            continue
        mine = op.region("dst").buffer
        later = Buffer(ctx.fresh(f"{mine.name}_next"), mine.shape, mine.dtype, FRAGMENT, mine.span)
        into = replace(op, args={**op.args, "dst": whole(later)})
        first = binary("gt", s.extent, 0)
        before += [Alloc(mine.span, later), _under(first, _at(into, s, s.start), s)]
        ahead = Var(s.var.dtype, s.span, f"{s.var.name}_next", "let")
        body += [replace(op, args={"src": whole(later), "dst": op.region("dst")}), Let(s.span, ahead, s.var + s.step),
                 If(s.span, binary("lt", ahead, s.start + s.extent * s.step), (_at(into, s, ahead),))]
        ctx.decide(x.span, f"copy to {mine.name}", "loaded an iteration early, into registers")
    return (*before, replace(s, body=tuple(body))) if before else (s,)


def _is_small(op: TileOp) -> bool:
    b = op.region("dst").buffer
    shape = b.static_shape()
    return b.scope == FRAGMENT and shape is not None and len(shape) == 1 and math.prod(shape) <= _MOST_ELEMENTS and dtypes.bits(b.dtype) >= 8


def _is_shared_out(b: Buffer, body: Body, variables: tuple[Var, ...]) -> bool:
    """Whether every access is by iterations of a parallel loop, each to an element of its own, or by an operator: what each thread reads whole it holds whole."""
    for s in body:
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer is b and not any(v in variables for i in x.indices for v in walk_expr(i)):
                    return False
        inner = (*variables, *s.vars) if isinstance(s, Parallel) else variables
        if not all(_is_shared_out(b, part, inner) for part in bodies(s)):
            return False
    return True


def _at(op: TileOp, s: For, value: Expr) -> Stmt:
    return map_own(op, lambda e: value if e is s.var else None)


def _under(cond: Expr, body: Stmt, s: For) -> Stmt:
    known = getattr(cond, "value", None)
    return body if known else If(s.span, cond, (body,))
