"""Blocks of different amounts of work: the longest first, so that the multiprocessors finish together."""
from __future__ import annotations

from ...ir.build import const_int
from ...ir.evaluate_int import evaluate
from ...ir.expr import Load, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Launch, While
from ...ir.stmt import walk as walk_statements
from ..rewrite import substitute
from .persistent import let_values
from .plan import LaunchPlan


def counted_down(s: Launch, plan: LaunchPlan) -> int | None:
    """The block index that decides how often the pipelined loops run, if blocks of greater index run longer."""
    if s.attrs.get("rasterization") is not None or any(isinstance(x, While) for x in walk_statements(s.body)):
        return None
    values = let_values(s.body)
    axes: set[int] = set()
    for found in plan.loops.values():
        extent = substitute(found.loop.extent, values)
        names = {x for x in walk_expr(extent) if isinstance(x, Var)}
        if not names:
            continue
        if len(names) > 1 or not names <= set(s.block_vars) or any(isinstance(x, Load) for x in walk_expr(extent)):
            return None
        var = names.pop()
        axis = s.block_vars.index(var)
        count = const_int(s.grid[axis])
        try:
            lengths = [evaluate(extent, {var: n}) for n in range(count or 0)]
        except (KeyError, ValueError, ZeroDivisionError):
            return None
        if lengths != sorted(lengths) or len(set(lengths)) < 2:
            return None
        axes.add(axis)
    return axes.pop() if len(axes) == 1 else None
