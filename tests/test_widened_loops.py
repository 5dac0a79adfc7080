"""Pieces of accumulators are taken from the threads that hold them: no exchange through shared memory."""
from __future__ import annotations

import hopper_kernels as kernels
import numpy as np
import pytest
from thread_interpreter import execute

T = kernels.T


def some_rows(first, rows, columns=32, M=64, N=32, K=32, into="shared", out="float16", threads=128):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((rows, columns), out)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K), "float16")
            b = T.alloc_shared((K, N), "float16")
            tile = T.alloc_shared((rows, columns), out)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            if into == "shared":
                T.copy(c[first:first + rows, :columns], tile)
                T.copy(tile, C)
            else:
                T.copy(c[first:first + rows, :columns], C)

    return main


CASES = [(0, 4, 32, "shared", "sm_80"), (0, 4, 32, "global", "sm_80"), (8, 20, 32, "shared", "sm_80"), (0, 4, 6, "shared", "sm_80"), (0, 4, 32, "shared", "sm_90a"),
         (0, 4, 32, "global", "sm_90a"), (3, 5, 32, "shared", "sm_90a"), (60, 4, 32, "global", "sm_90a"), (8, 20, 32, "shared", "sm_90a")]


@pytest.mark.parametrize("first, rows, columns, into, target", CASES)
def test_pieces(first, rows, columns, into, target):
    from tilec.jit import compile

    a, b = (np.random.default_rng(k).integers(-4, 5, s).astype(np.float32) for k, s in enumerate(((64, 32), (32, 32))))
    made = compile(some_rows(first, rows, columns, into=into), target=target).artifact
    assert "exchange" not in made.text("cuda")
    assert np.array_equal(execute(made.thread_program, A=a, B=b)["C"], (a @ b)[first:first + rows, :columns])
