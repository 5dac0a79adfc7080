"""Blocks that stay: as many as run at once, each doing tile after tile, so that the next tile's copies begin while the last one is stored.

The kernel's block variables stay what they are until blocks are put in order (``rasterize``); a loop marked ``tiles`` is where they get
their values. Blocks are independent of each other, so neither their number nor their order can be seen.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from ...ir.build import const, const_int
from ...ir.expr import Call, Expr, Load, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Body, For, If, Launch, Let, Stmt, TileOp, While, expressions
from ...ir.stmt import walk as walk_statements
from ...target.chips import Target
from ..matrix.device import function
from ..rewrite import substitute
from .guarded import guard_of
from .plan import LaunchPlan

PANEL = 16  # lines of blocks that share operands in the L2 cache
ROUNDS = function("tile_rounds", "int tiles", "return (tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);", "int32")
NUMBER = function("tile_number", "int round", "return static_cast<int>(blockIdx.x) + round * static_cast<int>(gridDim.x);", "int32")
_MOST_TILES = 2**30


def stays(s: Launch, plan: LaunchPlan, shared_bytes: int, blocks: int, target: Target) -> str:
    """"" if blocks are to stay, else why not. ``blocks``: how many run on a multiprocessor at once."""
    extents = [const_int(e) for e in s.grid]
    tiles = math.prod(e for e in extents if e is not None)
    if any(isinstance(x, While) for x in walk_statements(s.body)):
        return "blocks may wait for each other (T.While)"
    if (None not in extents and tiles <= blocks * target.sm_count) or tiles > _MOST_TILES:
        return "all blocks run at once"
    if shared_bytes + 1024 > target.shared_bytes:
        return "its tiles share memory with each other"
    if any(isinstance(x, Call) and "block" in x.op for inner in walk_statements(s.body) for e in expressions(inner) for x in walk_expr(e)):
        return "it asks for its block's number itself"
    values = let_values(s.body)
    for found in plan.loops.values():
        if not _outside_conditions(s.body, found.loop):
            return "the pipelined loop is under a condition"
        for e in (found.loop.start, found.loop.extent, guard_of(found.loop) or const(True)):
            if any(isinstance(x, Load) or x in s.block_vars for x in walk_expr(substitute(e, values))):
                return "blocks have different amounts of work; the hardware balances them"
    return ""


def let_values(body: Body) -> dict[Var, Expr]:
    """What names stand for, in terms of no other names."""
    values: dict[Var, Expr] = {}
    for x in walk_statements(body):
        if isinstance(x, Let):
            values[x.var] = substitute(x.value, values)
    return values


def _outside_conditions(body: Body, loop: For) -> bool:
    for x in body:
        if x is loop:
            return True
        if isinstance(x, (For, While)) and any(y is loop for y in walk_statements(x.body)):
            return isinstance(x, For) and const_int(x.extent) is not None and _outside_conditions(x.body, loop)
        if isinstance(x, If) and any(y is loop for y in walk_statements((x,))):
            return False
    return False


def order_of(s: Launch, plan: LaunchPlan) -> tuple[str, int] | None:
    """The order asked for; else panels, where some tiles depend on a block's row alone and others on its column alone."""
    given = s.attrs.get("rasterization")
    if given is not None or len(s.grid) < 2:
        return given
    x, y = s.block_vars[:2]
    values = let_values(s.body)
    copies = [op for found in plan.loops.values() for group in found.groups for op in group.copies]
    uses = {(x in used, y in used) for op in copies for used in [_variables(op, values)]}
    return ("row", PANEL) if (True, False) in uses and (False, True) in uses else None


def _variables(op: TileOp, values: dict[Var, Expr]) -> set[Expr]:
    places = (*op.region("src").mins, *(e for e in op.args.values() if isinstance(e, Expr)))
    return {v for e in places for v in walk_expr(substitute(e, values)) if isinstance(v, Var)}


def tile_loop(s: Launch, name: str, body: Iterable[Stmt]) -> For:
    total: Expr = const(1)
    for e in s.grid:
        total = total * e
    return For(s.span, Var("int32", s.span, name, "loop"), const(0), ROUNDS.within(0, None, total), tuple(body), "serial", 1, {"tiles": True})
