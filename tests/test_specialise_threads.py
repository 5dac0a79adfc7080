"""Specialised kernels executed thread by thread: what bulk copies bring and take away is what the other threads mean."""
from __future__ import annotations

from dataclasses import replace

import hopper_kernels as kernels
import numpy as np
import pytest
from thread_interpreter import execute

T = kernels.T


def program(made):
    from tilec.jit import compile

    artifact = compile(made, target="sm_90a").artifact
    assert "copying warp" in " ".join(map(str, artifact.decisions()))
    return artifact.thread_program


def numbers(*shape):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("M, N, K, options", [
    (64, 64, 64, {"block_M": 32, "block_N": 64}), (40, 72, 48, {"block_M": 32, "block_N": 32, "block_K": 32}), (32, 64, 64, {"block_M": 32, "block_N": 32, "block_K": 16, "stages": 2}),
    (64, 64, 64, {"block_M": 32, "block_N": 64, "trans_B": True}), (64, 64, 32, {"block_M": 32, "block_N": 32, "block_K": 32, "trans_A": True, "out": "float32"}),
    (32, 64, 64, {"block_M": 32, "block_N": 32, "block_K": 32, "stages": 1, "trans_B": True}),
], ids=str)
def test_products_by_warps(M, N, K, options):
    a, b = numbers(M, K), numbers(K, N)
    made = program(kernels.product(M, N, K, threads=128, **options))
    found = execute(made, A=a.T.copy() if options.get("trans_A") else a, B=b.T.copy() if options.get("trans_B") else b)["C"]
    assert np.array_equal(found, a @ b)


@pytest.mark.parametrize("M, N, K, options", [
    (64, 64, 64, {"block_M": 64, "block_N": 64, "threads": 128}), (100, 72, 80, {"block_M": 64, "block_N": 64, "block_K": 32, "threads": 128}),
    (128, 64, 48, {"block_M": 128, "block_N": 64, "block_K": 16}), (64, 64, 64, {"block_M": 64, "block_N": 64, "trans_B": True, "out": "float32", "threads": 128}),
    (64, 64, 64, {"block_M": 64, "block_N": 64, "trans_A": True, "threads": 128}), (64, 128, 32, {"block_M": 64, "block_N": 128, "block_K": 32, "policy": "FullCol"}),
    (64, 24, 32, {"block_M": 64, "block_N": 24, "block_K": 32, "trans_B": True, "threads": 128, "stages": 1}),
    (64, 32, 64, {"block_M": 64, "block_N": 32, "block_K": 32, "dtype": "int8", "sums": "int32", "out": "int32", "trans_B": True, "threads": 128}),
    (64, 32, 64, {"block_M": 64, "block_N": 32, "block_K": 32, "dtype": "bfloat16", "out": "bfloat16", "threads": 128}),
    (64, 32, 64, {"block_M": 64, "block_N": 32, "block_K": 32, "dtype": "float8_e4m3fn", "out": "float32", "trans_B": True, "threads": 128}),
    (64, 32, 32, {"block_M": 64, "block_N": 32, "block_K": 16, "dtype": "float32", "out": "float32", "trans_B": True, "threads": 128}),
], ids=str)
def test_products_by_warpgroups(M, N, K, options):
    a, b = numbers(M, K), numbers(K, N)
    found = execute(program(kernels.product(M, N, K, **options)), A=a.T.copy() if options.get("trans_A") else a, B=b.T.copy() if options.get("trans_B") else b)["C"]
    assert np.array_equal(found, a @ b)


@pytest.mark.parametrize("causal, stages", [(False, 2), (True, 1)])
def test_attention(causal, stages):
    q, k, v = (np.random.default_rng(i).standard_normal((1, 128, 1, 32)).astype(np.float16).astype(np.float32) for i in range(3))
    scores = q[0, :, 0] @ k[0, :, 0].T / 32**0.5 + (np.triu(np.full((128, 128), -np.inf), 1) if causal else 0)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v[0, :, 0] / weights.sum(1, keepdims=True)
    found = execute(program(kernels.attention(1, 1, 128, 32, causal, stages=stages)), Q=q, K=k, V=v)["O"][0, :, 0]
    assert np.allclose(found, wanted, atol=4e-3)


def test_weights_through_shared_memory():
    q, k, v = (np.random.default_rng(i).standard_normal(s).astype(np.float16).astype(np.float32) * 0.25 for i, s in enumerate(((1, 128, 32), (128, 32), (128, 32))))
    weights = np.exp(q[0] @ k.T)
    found = execute(program(kernels.weights_in_shared(128, 1, 32, policy="FullRow", threads=128)), Q=q, K=k, V=v)["O"][0]
    assert np.allclose(found, weights @ v / weights.sum(1, keepdims=True), atol=4e-3)


def staying(made):
    """The thread program for a chip of one multiprocessor, whose blocks do several tiles each."""
    from tilec.jit import compile
    from tilec.target.chips import find
    from tilec.transform.registry import run_passes

    found = run_passes(compile(made, target="sm_90a").artifact.program, replace(find("sm_90a"), sm_count=1))
    assert found.launches()[0].attrs.get("persistent")
    return found


@pytest.mark.parametrize("options", [{}, {"stages": 1}, {"swizzle": 2, "stages": 3}], ids=str)
def test_blocks_that_stay(options):
    a, b = numbers(128, 48), numbers(48, 192)
    made = staying(kernels.product(128, 192, 48, block_M=64, block_N=64, block_K=16, threads=128, **options))
    assert np.array_equal(execute(made, A=a, B=b)["C"], a @ b)


def test_attention_by_blocks_that_stay():
    q, k, v = (np.random.default_rng(i).standard_normal((1, 128, 2, 32)).astype(np.float16).astype(np.float32) for i in range(3))
    found = execute(staying(kernels.attention(1, 2, 128, 32, False)), Q=q, K=k, V=v)["O"]
    for h in range(2):
        scores = q[0, :, h] @ k[0, :, h].T / 32**0.5
        weights = np.exp(scores - scores.max(1, keepdims=True))
        assert np.allclose(found[0, :, h], weights @ v[0, :, h] / weights.sum(1, keepdims=True), atol=4e-3)


def _running_sum(M, N, K, dtype, stages):
    """Columns of rows added up: no matrix operation."""
    @T.prim_func
    def main(A: T.Tensor((K, M, N), dtype), S: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, 16), threads=128) as bx:
            tile = T.alloc_shared((16, N), dtype)
            s = T.alloc_shared((N,), "float32")
            c = T.alloc_fragment((16, N), "float32")
            T.clear(c)
            for k in T.Pipelined(K, num_stages=stages):
                T.copy(A[k, bx * 16, 0], tile)
                T.copy(S[k, 0], s)
                for i, j in T.Parallel(16, N):
                    c[i, j] += tile[i, j] * s[j]
            T.copy(c, C[bx * 16, 0])

    return main


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("N", [32, 64, 96])
@pytest.mark.parametrize("stages", [1, 3])
def test_sums_of_tiles(dtype, N, stages):
    a, s = numbers(5, 40, N), numbers(5, N)
    found = execute(program(_running_sum(40, N, 5, dtype, stages)), A=a, S=s)["C"]
    assert np.array_equal(found, np.einsum("kmn,kn->mn", a, s))


@pytest.mark.parametrize("stages, held", [(1, "tensor"), (2, "tensor"), (2, "fragment"), (1, "local")])
@pytest.mark.parametrize("kept", [(1, 1, 1, 1), (0, 1, 0, 1), (0, 0, 0, 0), (1, 0, 0, 0)], ids=str)
def test_iterations_left_out(kept, stages, held):
    a, b = numbers(64, 64), numbers(64, 64)
    mask = np.array([[kept], [kept[::-1]]]).astype(bool).transpose(0, 1, 2).reshape(1, 2, 4)
    made = program(kernels.block_sparse(64, 64, 64, block_M=64, block_N=32, block_K=16, stages=stages, held=held))
    found = execute(made, A=a, B=b, mask=mask)["C"]
    wanted = np.concatenate([sum((a[:, 16 * k:16 * k + 16] @ b[16 * k:16 * k + 16, 32 * x:32 * x + 32] for k in range(4) if mask[0, x, k]), np.zeros((64, 32), np.float32))
                             for x in range(2)], 1)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (64, 96, 32), (128, 128, 128)], ids=str)
def test_parts_of_tiles_by_warpgroups(M, N, K, trans_A, trans_B):
    from tilec.jit import compile

    a, b = numbers(M, K), numbers(K, N)
    artifact = compile(kernels.parts_of_tiles(M, N, K, trans_A, trans_B), target="sm_90a").artifact
    assert "wgmma m64" in " ".join(map(str, artifact.decisions()))
    found = execute(artifact.thread_program, A=a.T.copy() if trans_A else a, B=b.T.copy() if trans_B else b)["C"]
    assert np.array_equal(found, a @ b)
