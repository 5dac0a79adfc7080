"""Code that only some threads run and that touches what others touch: what is proven apart is compiled, what may meet is refused."""
from __future__ import annotations

import numpy as np
import pytest
from tilec.transform.errors import LoweringError
from transform_support import execute, lowered, prim

SIGNATURE = "A: T.Tensor((64,), 'int32'), C: T.Tensor((64,), 'int32')"


def kernel(write: str, head: str = "for r in T.serial(4):", more: str = "pass"):
    """Rounds that hand values from one row of a shared tile to the other, at places that counters give."""
    return prim(SIGNATURE, f"""
with T.Kernel(1, threads=64) as bx:
    tx = T.get_thread_binding()
    s = T.alloc_shared((2, 64), 'int32')
    n = T.alloc_shared((2,), 'int32')
    count = T.alloc_var('int32')
    pos = T.alloc_var('int32')
    s[0, tx] = A[tx]
    s[1, tx] = 0
    if tx < 2:
        n[tx] = 64
    T.sync_threads()
    {head}
        row = r % 2
        count = n[row]
        T.sync_threads()
        if tx == 0:
            n[row ^ 1] = 0
        T.sync_threads()
        if tx < count:
            {more}
            if s[row, tx] % 3 != 2:
                pos = T.atomic_add(n[row ^ 1], 1, return_prev=True)
                {write}
        T.sync_threads()
    C[tx] = T.if_then_else(tx < n[0], s[0, tx], -1)
""")


def expected(a, rounds=4):
    kept = list(a)
    for _ in range(rounds):
        kept = [x // 3 for x in kept if x % 3 != 2]
    return sorted(kept)


@pytest.mark.parametrize("write", [
    "s[row ^ 1, pos] = s[row, tx] // 3", "s[1 ^ row, pos] = s[row, tx] // 3",
])
def test_rows_that_are_never_the_same(write):
    a = np.arange(64, dtype=np.int32) * 5
    got = execute(lowered(kernel(write, more="C[tx] = s[row, (tx + 1) % 64]")), A=a)["C"]
    assert sorted(x for x in got if x >= 0) == expected(a)


def test_a_constant_distance_is_apart_too():
    made = kernel("s[row, pos] = s[row + 1, tx]", head="for r in T.serial(0, 4, 2):")
    lowered(made)


@pytest.mark.parametrize("write", ["s[row, pos] = C[tx]", "s[pos % 2, tx] = C[tx]", "s[n[0] % 2, pos] = C[tx]", "s[row, tx + 1] = C[tx]"])
def test_elements_that_may_meet_are_refused(write):
    with pytest.raises(LoweringError, match="Threads exchange data through s"):
        lowered(kernel(write, more="C[tx] = s[row, (tx + 1) % 64]"))


def test_a_row_that_changes_inside_is_refused():
    """Each thread may be in another iteration of the inner loop."""
    body = "for k in T.serial(count):\n                s[k % 2, pos] = s[(k % 2) ^ 1, tx]"
    with pytest.raises(LoweringError, match="Threads exchange data through s"):
        lowered(kernel("pass", more=body))
