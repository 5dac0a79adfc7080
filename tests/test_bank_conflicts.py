"""Shared tiles whose rows meet the same banks are swizzled, where loops alone use them; what they hold stays the same."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import for_target, prim
from tilec.transform.bank_conflicts import _turns
from transform_support import execute, lowered, numbers


def through_shared(dtype="float32", m=64, n=128, extra=""):
    """A product's accumulator goes through a shared tile to the tensor, as epilogues do."""
    return prim(f"A: T.Tensor(({m}, 32), 'float16'), B: T.Tensor(({n}, 32), 'float16'), C: T.Tensor(({m}, {n}), '{dtype}')", f"""
    with T.Kernel(1, threads=128) as b:
        a = T.alloc_shared(({m}, 32), 'float16')
        w = T.alloc_shared(({n}, 32), 'float16')
        c = T.alloc_fragment(({m}, {n}), 'float32')
        s = T.alloc_shared(({m}, {n}), '{dtype}')
        T.copy(A, a)
        T.copy(B, w)
        T.gemm(a, w, c, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel({m}, {n}):
            s[i, j] = c[i, j]
        {extra or "pass"}
        for i, j in T.Parallel({m}, {n}):
            C[i, j] = s[i, j]
    """)


def stores(made, target="sm_80"):
    return [line for line in for_target(made, target).text("cuda").splitlines() if "&s[" in line or " s[" in line]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_of_an_accumulator(dtype):
    made = through_shared(dtype)
    lines = stores(made)
    assert lines and all("^" in line for line in lines), lines
    a, b = numbers((64, 32), "float16"), numbers((128, 32), "float16", seed=1)
    got = execute(lowered(made, "sm_80"), A=a, B=b)["C"]
    np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-2, atol=0.1)


def test_a_tile_that_other_code_touches_stays_plain():
    made = through_shared(extra="tx = T.get_thread_binding()\n        s[0, tx] = 1.0")
    assert not any("^" in line for line in stores(made))


def test_rows_read_as_they_are_stored_need_no_swizzle():
    made = prim("A: T.Tensor((64, 128), 'float32'), B: T.Tensor((64, 128), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        s = T.alloc_shared((64, 128), 'float32')
        for i, j in T.Parallel(64, 128):
            s[i, j] = A[i, j]
        for i, j in T.Parallel(64, 128):
            B[i, j] = s[i, 127 - j]
    """)
    assert not any("^" in line for line in stores(made))


@pytest.mark.parametrize("addresses, size, turns", [
    ([4 * k for k in range(32)], 4, 1), ([0] * 32, 4, 1), ([128 * k for k in range(32)], 4, 32), ([16 * k for k in range(32)], 16, 4),
    ([8 * k for k in range(32)], 8, 2), ([2 * k for k in range(32)], 2, 1), ([512 * (k // 4) + 8 * (k % 4) for k in range(32)], 8, 8),
])
def test_turns(addresses, size, turns):
    assert _turns(addresses, size) == turns
