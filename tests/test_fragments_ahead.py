"""Small loads of threads in pipelined loops come an iteration early."""
from __future__ import annotations

import hopper_kernels as kernels
import numpy as np
import pytest
from thread_interpreter import execute

T = kernels.T


def biased(M, N, K, block_K=16, stages=3, elements=0, writes=False, late=False, whole=False):
    """A product of which every step has a factor for each column of A. ``elements``: of the factors, if not those of a step."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), S: T.Tensor((K,), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, block_K), "float16")
            b = T.alloc_shared((block_K, N), "float16")
            part = T.alloc_fragment((M, N), "float32")
            c = T.alloc_fragment((M, N), "float32")
            s = T.alloc_fragment((elements or block_K,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(c)
            if late:
                T.fill(s, 1)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[0, k * block_K], a)
                T.copy(B[k * block_K, 0], b)
                T.copy(S[k * block_K:k * block_K + (elements or block_K)], s)
                T.clear(part)
                T.gemm(a, b, part)
                if whole:
                    total[0] = s[3]
                else:
                    T.reduce_max(s, total, dim=0)
                for i, j in T.Parallel(M, N):
                    c[i, j] += part[i, j] * total[0]
                if writes:
                    S[0] = 1.0
            T.copy(c, C)

    return main


def compiled(program, target="sm_80"):
    from tilec.jit import compile

    return compile(program, target=target).artifact


def is_early(program, target="sm_80"):
    return "loaded an iteration early" in " ".join(map(str, compiled(program, target).decisions()))


@pytest.mark.parametrize("K, stages", [(64, 2), (64, 3), (16, 2), (56, 3)])
def test_values(K, stages):
    a, b, s = (np.random.default_rng(k).integers(-4, 5, shape).astype(np.float32) for k, shape in enumerate(((32, K), (K, 32), (K,))))
    program = biased(32, 32, K, stages=stages)
    assert is_early(program)
    steps = -(-K // 16)
    padded = np.concatenate([s, np.zeros(16 * steps - K, np.float32)])
    wanted = sum((a[:, 16 * k:16 * k + 16] @ b[16 * k:16 * k + 16]) * padded[16 * k:16 * k + 16].max() for k in range(steps))
    assert np.array_equal(execute(compiled(program).thread_program, A=a, B=b, S=s)["C"], wanted)


@pytest.mark.parametrize("options", [{"elements": 256}, {"writes": True}, {"stages": 1}, {"late": True}, {"whole": True}], ids=str)
def test_what_stays_where_it_is(options):
    """Large pieces, tensors that the kernel writes, loops of one stage, fragments that something else writes too or that
    every thread holds whole."""
    assert not is_early(biased(32, 32, 64 if "elements" not in options else 512, **options))


def test_the_next_iteration_is_asked_for_only_if_there_is_one():
    text = compiled(biased(32, 32, 64)).text("cuda")
    assert "if (k_next < 4) {" in text
