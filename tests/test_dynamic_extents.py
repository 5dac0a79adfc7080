"""Parallel loops over run-time extents beside tiles in registers."""
from __future__ import annotations

import pytest
from emit_support import prim
from three_ways import three_ways
from tilec.transform.errors import LoweringError
from transform_support import lowered

torch = pytest.importorskip("torch")



def test_tiles_repeated_a_number_of_times_known_at_run_time():
    three_ways("A: T.Tensor((7, 64), 'float32'), B: T.Tensor((7, 64), 'float32'), C: T.Tensor((64,), 'float32'), n: T.int32", """
with T.Kernel(1, threads=32) as bx:
    f = T.alloc_fragment((64,), 'float32')
    T.clear(f)
    for i in T.Parallel(n):
        for j in T.Parallel(64):
            f[j] = A[0, j] * 2.0
            B[i, j] = A[i, j] + 1.0
    T.copy(f, C)
""", torch.randint(-4, 5, (7, 64)).float(), torch.zeros(7, 64), torch.zeros(64), 5)


def test_variables_in_any_order_and_one_element():
    three_ways("C: T.Tensor((9, 64), 'float32'), n: T.int32", """
with T.Kernel(1, threads=32) as bx:
    f = T.alloc_fragment((64,), 'float32')
    for j in T.Parallel(64):
        f[j] = j
    for j, i in T.Parallel(64, n):
        C[i, j] = f[j] + i
    for i in T.Parallel(n):
        f[3] = 8.0
    for j in T.Parallel(64):
        C[8, j] = f[j]
""", torch.zeros(9, 64), 8)


def test_a_fragment_indexed_over_such_a_range_is_refused():
    made = prim("C: T.Tensor((64,), 'float32'), n: T.int32", """
with T.Kernel(1, threads=32) as bx:
    f = T.alloc_fragment((64,), 'float32')
    T.clear(f)
    for i in T.Parallel(n):
        f[i] = 1.0
    T.copy(f, C)
""")
    with pytest.raises(LoweringError, match="extent that is not constant"):
        lowered(made)
