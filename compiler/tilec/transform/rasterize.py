"""T.use_swizzle: blocks are numbered in panels, so that blocks that run together share operands in the L2 cache."""
from __future__ import annotations

from dataclasses import replace

from ..ir.build import binary, const, select
from ..ir.expr import Expr, Var
from ..ir.program import TileProgram
from ..ir.stmt import Body, For, Launch, Let, Stmt
from .context import PassContext
from .rewrite import map_children
from .specialise.persistent import NUMBER


def rasterize_blocks(program: TileProgram, ctx: PassContext) -> TileProgram:
    return replace(program, body=tuple(_launch(s) if isinstance(s, Launch) else s for s in program.body))


def _launch(s: Launch) -> Launch:
    if s.attrs.get("persistent"):
        return _persistent(s)
    if s.attrs.get("count_down") is not None:
        return _counted_down(s)
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


def _persistent(s: Launch) -> Launch:
    """The block variables get their values from the number of the tile, where the loop over tiles begins."""
    total: Expr = const(1)
    for e in s.grid:
        total = total * e

    def visit(body: Body) -> Body:
        out: list[Stmt] = []
        for x in body:
            x = map_children(x, visit)
            if isinstance(x, For) and x.attrs.get("tiles"):
                x = replace(x, body=(*_tile_place(s, x.var), *x.body))
            out.append(x)
        return tuple(out)

    attrs = {k: v for k, v in s.attrs.items() if k != "rasterization"}
    return replace(s, grid=(total,), block_vars=(), body=visit(s.body), attrs=attrs)


def _tile_place(s: Launch, turn: Var) -> list[Stmt]:
    number = Var("int32", s.span, "tile", "let")
    lets: list[Stmt] = [Let(s.span, number, NUMBER.within(0, None, turn))]
    variables, grid, order = list(s.block_vars), list(s.grid), s.attrs.get("rasterization")
    rest: Expr = number
    if len(grid) >= 2 and order is not None and isinstance(order[1], int) and order[1] >= 1:
        plane = grid[0] * grid[1]
        within = Var("int32", s.span, "tile_in_plane", "let")
        lets.append(Let(s.span, within, _remainder(rest, plane) if len(grid) > 2 else rest))
        along, across = (grid[0], grid[1]) if order[0] == "row" else (grid[1], grid[0])
        more, (inner, outer) = _panel_place(s, within, along, across, order[1])
        first, second = (inner, outer) if order[0] == "row" else (outer, inner)
        lets += [*more, Let(s.span, variables[0], first), Let(s.span, variables[1], second)]
        rest, variables, grid = _quotient(rest, plane), variables[2:], grid[2:]
    for k, (var, extent) in enumerate(zip(variables, grid)):
        lets.append(Let(s.span, var, rest if k == len(grid) - 1 else _remainder(rest, extent)))
        rest = _quotient(rest, extent)
    return lets


def _counted_down(s: Launch) -> Launch:
    """The blocks of one index in the opposite order; see ``specialise/balance``."""
    axis = s.attrs["count_down"]
    var = s.block_vars[axis]
    hardware = Var("int32", var.span, f"{var.name}_hw", "block")
    variables = tuple(hardware if k == axis else v for k, v in enumerate(s.block_vars))
    attrs = {k: v for k, v in s.attrs.items() if k != "count_down"}
    return replace(s, block_vars=variables, body=(Let(s.span, var, s.grid[axis] - 1 - hardware), *s.body), attrs=attrs)


def _quotient(a: Expr, b: Expr) -> Expr:
    """Of numbers that are not negative."""
    return binary("truncdiv", a, b)


def _remainder(a: Expr, b: Expr) -> Expr:
    return binary("truncmod", a, b)


def _panel_place(s: Launch, number: Expr, along: Expr, across: Expr, size: int) -> tuple[list[Stmt], tuple[Expr, Expr]]:
    """A panel is ``size`` lines wide and ``along`` long; blocks go across it first, and every other panel runs backwards."""
    panel, within, width, step = (Var("int32", s.span, n, "let") for n in ("panel", "within_panel", "panel_width", "panel_step"))
    lets: list[Stmt] = [
        Let(s.span, panel, _quotient(number, along * size)),
        Let(s.span, within, number - panel * (along * size)),
        Let(s.span, width, binary("min", across - panel * size, const(size))),  # the last panel may be narrower
        Let(s.span, step, _quotient(within, width)),
    ]
    forward = select(binary("eq", _remainder(panel, const(2)), const(0)), step, along - 1 - step)
    return lets, (forward, panel * size + (within - step * width))
