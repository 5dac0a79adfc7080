"""Groups of threads with tiles of their own: T.ws and conditions on the thread index."""
from __future__ import annotations

import re

import pytest
from tilec.pipeline import compile_program
from tilec.target.chips import find
from tilec.transform.errors import LoweringError
from transform_support import prim

GEMM = ("A: T.Tensor((128, 128), 'float16'), B: T.Tensor((128, 128), 'float16'), C: T.Tensor((128, 128), 'float32')", """
    with T.Kernel(2, 2, threads=256) as (bx, by):
        a = T.alloc_shared((2, 64, 32), 'float16')
        b = T.alloc_shared((2, 32, 64), 'float16')
        c = T.alloc_fragment((64, 64), 'float32')
        full = T.alloc_barrier([128, 128])
        empty = T.alloc_barrier([128, 128])
        with T.ws(1):
            for k in T.serial(4):
                T.mbarrier_wait_parity(empty[k % 2], ((k // 2) % 2) ^ 1)
                T.{copy}(A[by * 64:by * 64 + 64, k * 32:k * 32 + 32], a[k % 2, :, :]{barrier})
                T.{copy}(B[k * 32:k * 32 + 32, bx * 64:bx * 64 + 64], b[k % 2, :, :]{barrier})
                T.mbarrier_arrive(full[k % 2])
        with T.ws(0):
            T.clear(c)
            for k in T.serial(4):
                T.mbarrier_wait_parity(full[k % 2], (k // 2) % 2)
                T.gemm(a[k % 2, :, :], b[k % 2, :, :], c)
                T.mbarrier_arrive(empty[k % 2])
            T.copy(c, C[by * 64, bx * 64])
""")


def text(signature: str, body: str, target: str = "sm_90a") -> str:
    module = compile_program(prim(signature, body), find(target)).cuda()
    return module.text[module.text.index('extern "C"'):]


@pytest.mark.parametrize("copy, barrier, target", [("copy", "", "sm_90a"), ("tma_copy", ", barrier=full[k % 2]", "sm_90")])
def test_producer_and_consumer_never_meet_at_a_block_barrier(copy, barrier, target):
    made = text(GEMM[0], GEMM[1].format(copy=copy, barrier=barrier), target)
    start = made.index("if (tx / 128 == 1)")
    assert "tile_sync_threads" not in made[start:]
    assert set(re.findall(r"tile_sync_named\((\d+), (\d+)\)", made)) == ({("14", "128")} if copy == "copy" else set())
    assert "tx % 128" in made[start:made.index("if (tx / 128 == 0)")]
    if copy == "tma_copy":  # each thread's arrival comes after that of its copies was announced
        announced = made.rindex("tile_cp_async_arrive(&full", 0, made.index("tile_mbarrier_arrive(&full"))
        assert "tile_cp_async_16(&b[" in made[:announced]


def test_groups_without_mbarriers_are_ordered_by_block_barriers():
    made = text("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'float32')
        if tx < 64:
            for i in T.Parallel(64):
                s[i] = A[i]
        else:
            for i in T.Parallel(64):
                B[i] = s[63 - i]
    """)
    assert made.index("s[i_t] = ") < made.index("tile_sync_threads") < made.index("B[i_1_t")


def test_a_fragment_of_two_groups_is_refused():
    with pytest.raises(LoweringError, match="The fragment f is used by different groups of threads"):
        text("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=256) as bx:
        f = T.alloc_fragment((64,), 'float32')
        with T.ws(0):
            T.copy(A, f)
        with T.ws(1):
            T.copy(f, B)
    """)


def test_part_of_a_warp_is_no_group():
    with pytest.raises(LoweringError, match="run by some of them only"):
        text("A: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        if tx < 40:
            for i in T.Parallel(64):
                A[i] = 1.0
    """)


def test_bytes_that_nothing_completes_are_refused():
    body = GEMM[1].format(copy="tma_copy", barrier=", barrier=full[k % 2]").replace(
        "T.mbarrier_arrive(full", "T.mbarrier_expect_tx(full[k % 2], 8192)\n                T.mbarrier_arrive(full")
    with pytest.raises(LoweringError, match="Leave T.mbarrier_expect_tx out"):
        text(GEMM[0], body)


def test_groups_smaller_than_a_warpgroup_have_barriers_of_their_own():
    """Two groups of 64 threads that counted on the same barrier would let go of it when a half of each has come."""
    body = """
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((128,), 'float32')
        for i in T.Parallel(128):
            s[i] = A[i]
        if tx < 64:
            for r in T.serial(3):
                for i in T.Parallel(64):
                    s[i] = s[63 - i] + 1
        else:
            for r in T.serial(3):
                for i in T.Parallel(64):
                    s[64 + i] = s[127 - i] + 2
        for i in T.Parallel(128):
            B[i] = s[i]
    """
    signature = "A: T.Tensor((128,), 'float32'), B: T.Tensor((128,), 'float32')"
    assert len(set(re.findall(r"tile_sync_named\((\d+), 64\)", text(signature, body)))) == 2


def test_numbers_of_barriers():
    from tilec.transform.matrix.barrier_functions import group_barriers

    assert group_barriers([(128, 256), (0, 128)]) == {(0, 128): 15, (128, 256): 14}
    many = group_barriers([(0, 256), *((k, k + 64) for k in range(0, 512, 64)), (256, 288)])
    assert len(set(many.values())) == len(many) == 10 and many[0, 256] == 15
    assert len(group_barriers((k, k + 32) for k in range(0, 1024, 32))) == 15  # the others are single warps, which need none
