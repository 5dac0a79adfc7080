"""T.set_max_nreg in groups of the user's: heeded where the registers add up, left out elsewhere."""
from __future__ import annotations

import pytest
from emit_support import prim
from tilec.pipeline import compile_program
from tilec.target.chips import find


def text(counts, threads=384, bound=128, target="sm_90a"):
    (a, up), (b, down) = counts
    return compile_program(prim("A: T.Tensor((64, 64), 'float32')", f"""
    with T.Kernel(4, threads={threads}) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_fragment((64, 64), 'float32')
        y = T.alloc_fragment((64, 64), 'float32')
        if tx < {bound}:
            T.set_max_nreg({a}, {up})
            T.fill(x, 1.0)
            T.copy(x, A)
        else:
            T.set_max_nreg({b}, {down})
            T.fill(y, 2.0)
            T.copy(y, A)
    """), find(target)).text("cuda")


def test_an_exchange_that_adds_up_is_heeded():
    found = text([(240, 1), (128, 0)])
    assert "tile_registers_inc_240();" in found and "tile_registers_dec_128();" in found and "__launch_bounds__(384, 1)" in found


@pytest.mark.parametrize("counts, options", [
    ([(240, 1), (152, 0)], {}), ([(240, 1), (168, 1)], {}), ([(160, 1), (168, 0)], {}), ([(168, 1), (200, 0)], {}), ([(240, 1), (24, 0)], {"bound": 64}),
    ([(240, 1), (24, 0)], {"threads": 256}),
], ids=str)
def test_any_other_is_left_out(counts, options):
    """More than there is, an increase below the start, a decrease above it, half a warpgroup; two warpgroups have all registers they can use."""
    assert "setmaxnreg" not in text(counts, **options)


def test_other_chips_have_no_exchange():
    assert "setmaxnreg" not in text([(240, 1), (128, 0)], target="sm_80")
