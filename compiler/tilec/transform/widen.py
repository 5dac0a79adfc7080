"""Loops over a piece of a fragment that its threads do not share out evenly: the loop goes over the whole fragment and leaves the rest out.

``T.copy(accumulator[:4, :], tile)`` of 64 rows takes four rows from a few threads. By itself the loop would be shared out over all of
them, and the whole fragment exchanged through shared memory for it.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..analysis.digits import pulled_back
from ..ir.affine import linear
from ..ir.buffer import GLOBAL
from ..ir.build import binary, const
from ..ir.expr import Expr, Var, equal
from ..ir.stmt import Body, If, Parallel, Role, Stmt, Store, TileOp
from ..ir.stmt import walk as walk_statements
from .context import LaunchState
from .layouts import fragment_accesses, needs_every_thread, static_extents, updates_memory
from .rewrite import map_children, substitute_body

_SMALL = 4  # a tensor is written in wide pieces by threads in a row, but for so small a part of a fragment


def widened(body: Body, state: LaunchState) -> Body:
    """With the layouts that are known before loops are looked at: those of matrix operations."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Parallel):
            out.append(_loop(s, state))
        else:
            mine = state.for_role(s.low, s.high) if isinstance(s, Role) else state
            out.append(map_children(s, lambda inner, mine=mine: widened(inner, mine)))  # type: ignore[misc]
    return tuple(out)


def _loop(s: Parallel, state: LaunchState) -> Parallel:
    accesses = fragment_accesses(s.body)
    if not accesses or any(a.writes or a.buffer is not accesses[0].buffer for a in accesses) or any(isinstance(x, TileOp) for x in walk_statements(s.body)):
        return s
    first, extents = accesses[0], static_extents(s)
    layout = state.layouts.get(first.buffer)
    if layout is None or extents is None or layout.is_padded() or needs_every_thread(s, state) or updates_memory(s):
        return s
    starts = _starts(first.indices, s.vars)
    if starts is None or any(not equal(i, j) for a in accesses for i, j in zip(a.indices, first.indices)) or any(
            start < 0 or start + e > n for start, e, n in zip(starts, extents, layout.shape)):
        return s
    if pulled_back(layout, first.indices, s.vars, extents) is not None or (_stores_tensor(s) and math.prod(extents) * _SMALL > math.prod(layout.shape)):
        return s
    return _over_all(s, starts, extents, layout.shape)


def _stores_tensor(s: Parallel) -> bool:
    return any(isinstance(x, Store) and x.buffer.storage().scope == GLOBAL for x in walk_statements(s.body))


def _starts(indices: Sequence[Expr], variables: Sequence[Var]) -> list[int] | None:
    """Where the piece begins, if the loop's variables are the indices in their order, each moved by a constant."""
    if len(indices) != len(variables):
        return None
    found: list[int] = []
    for index, var in zip(indices, variables):
        terms, start = linear(index)
        if len(terms) != 1 or terms[0][0] is not var or terms[0][1] != 1:
            return None
        found.append(start)
    return found


def _over_all(s: Parallel, starts: list[int], extents: Sequence[int], shape: Sequence[int]) -> Parallel:
    conditions: list[Expr] = []
    values: dict[Var, Expr] = {}
    variables = tuple(Var(v.dtype, v.span, v.name, v.kind) for v in s.vars)
    for old, var, start, extent, whole in zip(s.vars, variables, starts, extents, shape):
        values[old] = var - start if start else var
        if start:
            conditions.append(binary("ge", var, const(start)))
        if start + extent < whole:
            conditions.append(binary("lt", var, const(start + extent)))
    body = substitute_body(s.body, values)
    for c in reversed(conditions):
        body = (If(s.span, c, body),)
    return replace(s, vars=variables, extents=tuple(const(n) for n in shape), body=body)


