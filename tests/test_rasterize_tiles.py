"""Blocks that stay: the tiles they take are the grid's, each once, whatever the order and whether its extents are known."""
from __future__ import annotations

import itertools

import pytest
from tilec.ir.build import const
from tilec.ir.evaluate_int import evaluate
from tilec.ir.expr import Binary, Call, Const, Expr, Select, Var
from tilec.ir.program import TileProgram
from tilec.ir.stmt import For, Launch, Let
from tilec.transform.rasterize import rasterize_blocks


def number(e: Expr, values):
    """An expression's value; ``tile_number`` is the number itself."""
    if isinstance(e, Call):
        return values[e.args[0]]
    if isinstance(e, Const):
        return e.value
    if isinstance(e, Select):
        return number(e.then if number(e.cond, values) else e.other, values)
    if isinstance(e, Binary) and e.op in ("truncdiv", "truncmod"):
        a, b = number(e.a, values), number(e.b, values)
        assert a >= 0 and b > 0
        return a // b if e.op == "truncdiv" else a % b
    if isinstance(e, Binary):
        a, b = const(number(e.a, values)), const(number(e.b, values))
        return evaluate(Binary(e.dtype, None, e.op, a, b), {})
    return values[e]


@pytest.mark.parametrize("order", [None, ("row", 3), ("column", 2), ("row", 16)])
@pytest.mark.parametrize("extents", [(7,), (4, 5), (5, 4, 3), (1, 1), (33, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_every_tile_is_taken_once(order, extents, known):
    sizes = [const(n) if known else Var("int32", None, f"n{k}", "dynamic") for k, n in enumerate(extents)]
    places = tuple(Var("int32", None, f"b{k}", "block") for k in range(len(extents)))
    turn = Var("int32", None, "round", "loop")
    loop = For(None, turn, const(0), const(1), (), "serial", 1, {"tiles": True})
    launch = Launch(None, tuple(sizes), places, (const(128), const(1), const(1)), (loop,), {"persistent": 1, "rasterization": order})
    made = rasterize_blocks(TileProgram("kernel", (), (launch,)), None).launches()[0]
    given = {v: n for v, n in zip(sizes, extents) if isinstance(v, Var)}
    total = number(made.grid[0], given)
    assert made.block_vars == () and len(made.grid) == 1
    taken = []
    for tile in range(total):
        values = {**given, turn: tile}
        for s in made.body[0].body:
            assert isinstance(s, Let)
            values[s.var] = number(s.value, values)
        taken.append(tuple(values[v] for v in places))
    assert sorted(taken) == sorted(itertools.product(*map(range, extents)))


def test_a_panel_shares_operands():
    """Tiles that run together lie in few rows and columns."""
    places = tuple(Var("int32", None, n, "block") for n in "xy")
    turn = Var("int32", None, "round", "loop")
    loop = For(None, turn, const(0), const(1), (), "serial", 1, {"tiles": True})
    launch = Launch(None, (const(32), const(64)), places, (const(128), const(1), const(1)), (loop,), {"persistent": 1, "rasterization": ("row", 16)})
    made = rasterize_blocks(TileProgram("kernel", (), (launch,)), None).launches()[0]
    together = []
    for tile in range(132):
        values = {turn: tile}
        for s in made.body[0].body:
            values[s.var] = number(s.value, values)
        together.append((values[places[0]], values[places[1]]))
    assert len({x for x, _ in together}) + len({y for _, y in together}) <= 25
