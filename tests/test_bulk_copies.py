"""T.tma_copy by the copy engine in kernels with barriers of their own: what it does, thread by thread, and where threads copy."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import for_target, prim
from transform_support import device_functions, lowered, numbers, run


def product(M=128, N=128, K=128, count=128, arrive="T.mbarrier_arrive(full[k % 2])", stages=2, extra="", source="A", threads=256):
    """As TileLang's examples write it: one group copies, the other multiplies, and each tells the other."""
    return f"A: T.Tensor(({M}, {K}), 'float16'), B: T.Tensor(({K}, {N}), 'float16'), C: T.Tensor(({M}, {N}), 'float32')", f"""
    with T.Kernel(T.ceildiv({N}, 64), T.ceildiv({M}, 64), threads={threads}) as (bx, by):
        tx = T.get_thread_binding()
        a = T.alloc_shared(({stages}, 64, 32), 'float16')
        b = T.alloc_shared(({stages}, 32, 64), 'float16')
        c = T.alloc_fragment((64, 64), 'float32')
        full = T.alloc_barrier([{count}] * {stages})
        empty = T.alloc_barrier([128] * {stages})
        {extra or "pass"}
        with T.ws(1):
            for k in T.serial(T.ceildiv({K}, 32)):
                T.mbarrier_wait_parity(empty[k % {stages}], ((k // {stages}) % 2) ^ 1)
                T.tma_copy({source}[by * 64:by * 64 + 64, k * 32:k * 32 + 32], a[k % {stages}, :, :], barrier=full[k % {stages}])
                T.tma_copy(B[k * 32:k * 32 + 32, bx * 64:bx * 64 + 64], b[k % {stages}, :, :], barrier=full[k % {stages}])
                {arrive.replace("% 2", f"% {stages}")}
        with T.ws(0):
            T.clear(c)
            for k in T.serial(T.ceildiv({K}, 32)):
                T.mbarrier_wait_parity(full[k % {stages}], (k // {stages}) % 2)
                T.gemm(a[k % {stages}, :, :], b[k % {stages}, :, :], c)
                T.mbarrier_arrive(empty[k % {stages}])
            T.copy(c, C[by * 64, bx * 64])
    """


ONE_ARRIVES = {"count": 1, "arrive": "if tx == 160:\n                    T.mbarrier_arrive(full[k % 2])"}


def copies(program, target="sm_90a"):
    return [d.text() for d in for_target(program, target).decisions() if d.what.startswith("copy to")]


@pytest.mark.parametrize("case", [{}, {"M": 100, "N": 72, "K": 136}, {"stages": 3}, {"stages": 1}, ONE_ARRIVES], ids=str)
def test_groups_that_keep_their_own_barriers(case):
    signature, body = product(**case)
    M, N, K = (case.get(n, 128) for n in "MNK")
    assert copies(prim(signature, body)) == [f"copy to {n}: bulk tensor copy (TMA)" for n in "ab"]
    A, B = numbers((M, K), "float16"), numbers((K, N), "float16", seed=1)
    np.testing.assert_allclose(run(signature, body, "sm_90a", A=A, B=B)["C"], A.astype(np.float32) @ B.astype(np.float32), atol=1e-3)


def test_a_tile_that_threads_write_before_is_fenced():
    signature, body = product(extra="T.clear(b)")
    A, B = numbers((128, 128), "float16"), numbers((128, 128), "float16", seed=1)
    np.testing.assert_allclose(run(signature, body, "sm_90a", A=A, B=B)["C"], A.astype(np.float32) @ B.astype(np.float32), atol=1e-3)
    cuda = for_target(prim(signature, body), "sm_90a").text("cuda")
    announced = [k for k, line in enumerate(cuda.splitlines()) if "tile_mbarrier_expect_tx(&full" in line]
    assert ["fence_proxy_async" in cuda.splitlines()[k - 1] for k in announced] == [False, True]


def test_who_may_arrive_early_waits_until_the_bytes_are_announced():
    together = for_target(prim(*product()), "sm_90a").text("cuda")
    alone = for_target(prim(*product(**ONE_ARRIVES)), "sm_90a").text("cuda")
    assert "tile_sync_named(14, 128)" in alone and "tile_sync_named(14" not in together


def test_the_whole_block_brings_a_tile_once():
    signature = "Q: T.Tensor((70, 64), 'float16'), O: T.Tensor((70, 64), 'float32')"
    body = """
    with T.Kernel(3, threads=128) as bx:
        q = T.alloc_shared((32, 64), 'float16')
        there = T.alloc_barrier(128)
        T.tma_copy(Q[bx * 32:bx * 32 + 32, :], q, barrier=there)
        T.barrier_arrive(there)
        T.barrier_wait(there, 0)
        for i, j in T.Parallel(32, 64):
            O[bx * 32 + i, j] = q[i, j] * 2
    """
    Q = numbers((70, 64), "float16")
    assert copies(prim(signature, body)) == ["copy to q: bulk tensor copy (TMA)"]
    np.testing.assert_array_equal(run(signature, body, "sm_90a", Q=Q)["O"], Q.astype(np.float32) * 2)


LEFT = {
    "rows of 2 bytes too many": (product(K=129), "no multiple of 16"),
    "written in the kernel": ((product()[0], product()[1] + "        T.copy(A[0:64, 0:32], A[64:128, 0:32])\n"), "the kernel writes A too"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_threads_copy_says_why(name):
    (signature, body), reason = LEFT[name]
    assert any("by all threads" in text and reason in text for text in copies(prim(signature, body)))


def test_threads_copy_on_other_chips():
    made = lowered(prim(*product()), "sm_90")
    assert not any(name.startswith("tile_tma") for name in device_functions(made))


def test_copies_to_several_blocks_are_refused():
    from tilec.transform.errors import LoweringError

    signature, body = product()
    with pytest.raises(LoweringError, match="several blocks"):
        for_target(prim(signature, body.replace("barrier=full[k % 2])", "barrier=full[k % 2], cluster_mask=3)", 1)), "sm_90a")
