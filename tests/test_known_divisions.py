"""Quotients and remainders that ranges know are not printed; what holds under a condition counts for as long as it holds."""
from __future__ import annotations

import random

import pytest
from emit_support import for_target, prim
from tilec.analysis.bounds import Ranges
from tilec.emit.cuda.expressions import ExpressionPrinter, _simplified
from tilec.ir.build import binary, const
from tilec.ir.evaluate_int import evaluate
from tilec.ir.expr import Binary, Var, walk

EXTENTS = {"u": 9, "v": 8, "w": 64, "t": 128}
NAMES = {name: Var("int32", None, name, "loop") for name in EXTENTS}


def ranges():
    found = Ranges()
    for name, extent in EXTENTS.items():
        found.set_extent(NAMES[name], const(extent))
    return found


def simplified(e):
    return _simplified(ExpressionPrinter(ranges()), e)


def divisions(e):
    return sum(isinstance(x, Binary) and x.op in ("floordiv", "floormod") for x in walk(e))


def an_expression(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*NAMES.values(), const(rng.randrange(0, 600))])
    op = rng.choice(["add", "add", "mul", "floordiv", "floormod", "floordiv", "floormod", "sub", "bitxor"])
    if op in ("floordiv", "floormod", "mul"):
        return binary(op, an_expression(rng, depth - 1), const(rng.choice([2, 3, 4, 8, 16, 64, 576])))
    return binary(op, an_expression(rng, depth - 1), an_expression(rng, depth - 1))


@pytest.mark.parametrize("seed", range(300))
def test_the_value_stays(seed):
    rng = random.Random(seed)
    e = an_expression(rng, 5)
    made = simplified(e)
    for _ in range(50):
        values = {NAMES[n]: rng.randrange(extent) for n, extent in EXTENTS.items()}
        assert evaluate(made, values) == evaluate(e, values)


def test_digits_of_a_sum():
    u, v, w, t = (NAMES[n] for n in "uvwt")
    assert simplified(binary("floordiv", u * 64 + v * 8, const(64))) is u
    assert divisions(simplified(binary("floormod", u * 64 + v * 8, const(64)))) == 0
    assert divisions(simplified(binary("floordiv", binary("floormod", u * 64 + v * 8, const(64)), const(8)))) == 0
    assert divisions(simplified(binary("floordiv", w + 64, const(64)))) == 0
    assert divisions(simplified(binary("floordiv", t + 64, const(64)))) == 1  # which is 1 + t // 64
    assert divisions(simplified(binary("floordiv", t - 1, const(64)))) == 1


def test_what_a_condition_says():
    t = NAMES["t"]
    known = ranges()
    with known.under(binary("and", binary("ge", t, const(32)), binary("lt", t, const(96)))):
        assert known.bounds(t) == (32, 95)
        with known.under(binary("eq", t, const(40))):
            assert known.bounds(t) == (40, 40)
        with known.under(binary("gt", const(64), t)):
            assert known.bounds(t) == (32, 63)
    assert known.bounds(t) == (0, 127)


def test_groups_that_start_late_divide_like_others():
    made = prim("A: T.Tensor((64, 128), 'float16'), B: T.Tensor((64, 128), 'float16')", """
    with T.Kernel(1, threads=256) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64, 128), 'float16')
        if tx >= 128:
            for r in T.serial(8):
                for u in T.serial(16):
                    s[r * 8 + (tx - 128) // 16, u * 8 + (tx - 128) % 8] = A[r * 8 + (tx - 128) // 16, u * 8 + (tx - 128) % 8]
        T.sync_threads()
        T.copy(s, B)
    """)
    text = for_target(made, "sm_90a").text("cuda")
    assert "tile_floordiv" not in text and "tile_floormod" not in text
