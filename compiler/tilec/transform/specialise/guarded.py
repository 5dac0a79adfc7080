"""Loops that leave iterations out: ``for k in T.Pipelined(n): if mask[k]: ...``, as block-sparse products have.

Both sides ask the condition themselves, and only iterations that run count stages, so that rings need not know of the others.
"""
from __future__ import annotations

from dataclasses import replace

from ...ir.expr import Expr
from ...ir.stmt import Body, For, If, Stmt
from ..rewrite import map_children

_GUARD = "guard"


def guarded_loops(body: Body) -> Body:
    """Pipelined loops whose body is one condition keep the condition beside what is under it."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, For) and s.kind == "pipelined" and len(s.body) == 1 and isinstance(s.body[0], If) and not s.body[0].other:
            s = replace(s, body=s.body[0].then, attrs={**s.attrs, _GUARD: s.body[0].cond})
        out.append(map_children(s, guarded_loops))
    return tuple(out)


def guard_of(s: For) -> Expr | None:
    return s.attrs.get(_GUARD)


def under_guard(s: For, body: Body) -> Body:
    """What an iteration does, if it is not left out."""
    guard = guard_of(s)
    return body if guard is None else (If(s.span, guard, body),)
