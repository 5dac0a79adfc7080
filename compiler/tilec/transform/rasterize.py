"""T.use_swizzle: blocks are numbered in panels, so that blocks that run together share operands in the L2 cache."""
from __future__ import annotations

from dataclasses import replace

from ..ir.build import binary, const, select
from ..ir.expr import Expr, Var
from ..ir.program import TileProgram
from ..ir.stmt import Launch, Let, Stmt
from .context import PassContext


def rasterize_blocks(program: TileProgram, ctx: PassContext) -> TileProgram:
    return replace(program, body=tuple(_launch(s) if isinstance(s, Launch) else s for s in program.body))


def _launch(s: Launch) -> Launch:
    order = s.attrs.get("rasterization")
    if order is None or len(s.grid) < 2 or not isinstance(order[1], int) or order[1] < 1:
        return s
    kind, size = order
    x, y = s.block_vars[:2]
    hardware = tuple(Var("int32", v.span, f"{v.name}_hw", "block") for v in (x, y))
    number = Var("int32", s.span, "block_number", "let")
    lets: list[Stmt] = [Let(s.span, number, hardware[1] * s.grid[0] + hardware[0])]
    along, across = (s.grid[0], s.grid[1]) if kind == "row" else (s.grid[1], s.grid[0])
    more, (inner, outer) = _panel_place(s, number, along, across, size)
    first, second = (inner, outer) if kind == "row" else (outer, inner)
    lets += [*more, Let(s.span, x, first), Let(s.span, y, second)]
    attrs = {k: v for k, v in s.attrs.items() if k != "rasterization"}
    return replace(s, block_vars=(*hardware, *s.block_vars[2:]), body=(*lets, *s.body), attrs=attrs)


def _panel_place(s: Launch, number: Expr, along: Expr, across: Expr, size: int) -> tuple[list[Stmt], tuple[Expr, Expr]]:
    """A panel is ``size`` lines wide and ``along`` long; blocks go across it first, and every other panel runs backwards."""
    panel, within, width, step = (Var("int32", s.span, n, "let") for n in ("panel", "within_panel", "panel_width", "panel_step"))
    lets: list[Stmt] = [
        Let(s.span, panel, number // (along * size)),
        Let(s.span, within, number - panel * (along * size)),
        Let(s.span, width, binary("min", across - panel * size, const(size))),  # the last panel may be narrower
        Let(s.span, step, within // width),
    ]
    forward = select(binary("eq", panel % 2, const(0)), step, along - 1 - step)
    return lets, (forward, panel * size + (within - step * width))
