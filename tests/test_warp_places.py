"""Elements that one warp alone accesses: its threads wait for each other, not for the block; and T.tma_copy before everybody's own arrival."""
from __future__ import annotations

import re

import numpy as np
import pytest
from emit_support import for_target, prim
from transform_support import execute, lowered, numbers

SIGNATURE = "A: T.Tensor((64,), 'int32'), B: T.Tensor((128,), 'int32')"


def kernel(write, read, before=""):
    """Rounds in which an element is written, by one of its threads or by all of them alike, and read by others."""
    return prim(SIGNATURE, f"""
    with T.Kernel(1, threads=128) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'int32')
        total = T.alloc_var('int32')
        total = 0
        for r in T.serial(4):
            {before}s[{write}] = A[{write}]
            if s[{read}] > 2:
                total = total + s[{read}]
        B[tx] = total
    """)


def waits(made, target="sm_80"):
    text = for_target(made, target).text("cuda")
    return re.findall(r"(tile_sync_\w+)\(", text[text.index('extern "C"'):])


@pytest.mark.parametrize("before", ["", "if tx % 8 == 3: "])
def test_eight_threads_of_an_element(before):
    made = kernel("r * 16 + tx // 8", "r * 16 + tx // 8", before)
    assert set(waits(made)) == {"tile_sync_warp"}
    if before:
        a = np.arange(64, dtype=np.int32)
        got = execute(lowered(made, "sm_80"), A=a, B=np.zeros(128, np.int32))["B"]
        np.testing.assert_array_equal(got, np.where(a > 2, a, 0).reshape(4, 16).sum(0).repeat(8))


def test_a_warp_of_a_group():
    made = prim(SIGNATURE, """
    with T.Kernel(1, threads=256) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'int32')
        t = T.alloc_shared((128,), 'int32')
        if tx >= 128:
            for r in T.serial(4):
                if tx % 8 == 1:
                    s[r * 16 + (tx - 128) // 8] = A[r * 16 + (tx - 128) // 8]
                if s[r * 16 + (tx - 128) // 8] > 2:
                    t[tx - 128] = s[r * 16 + (tx - 128) // 8]
            for i in T.Parallel(128):
                B[i] = t[i]
    """)
    found = waits(made, "sm_90a")
    assert found.count("tile_sync_warp") == 2 and found.count("tile_sync_named") == 1


@pytest.mark.parametrize("write, read", [
    ("r * 16 + tx // 8", "r * 16 + (127 - tx) // 8"),  # another warp's
    ("r * 8 + tx // 8", "r * 8 + tx // 8"),  # rounds overlap: another warp's of the round before
    ("r * 16 + tx % 16", "r * 16 + tx % 16"),  # told by no warp
    ("r * 2 + tx // 64", "r * 2 + tx // 64"),  # by two warps
    ("r * 16 + (tx + 4) // 8 % 16", "r * 16 + (tx + 4) // 8 % 16"),  # eight of two warps
])
def test_elements_of_several_warps(write, read):
    assert "tile_sync_threads" in waits(kernel(write, read))


def test_a_thread_reads_what_it_wrote():
    made = prim("A: T.Tensor((128,), 'int32'), B: T.Tensor((128,), 'int32')", """
    with T.Kernel(1, threads=128) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((4, 128), 'int32')
        for r in T.serial(4):
            s[r, tx] = A[tx] + r
            B[tx] = B[tx] + s[r, tx]
    """)
    assert not waits(made) or "tile_sync_warp" not in waits(made)
    a = np.arange(128, dtype=np.int32)
    np.testing.assert_array_equal(execute(lowered(made, "sm_80"), A=a, B=np.zeros(128, np.int32))["B"], 4 * a + 6)


def test_others_still_wait_for_the_block():
    """What a warp kept to itself is read by all afterwards, and written again by it after that."""
    made = prim(SIGNATURE, """
    with T.Kernel(1, threads=128) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((16,), 'int32')
        total = T.alloc_var('int32')
        total = 0
        for r in T.serial(4):
            if tx % 8 == 7:
                s[tx // 8] = A[r * 16 + tx // 8]
            if s[tx // 8] >= 0:
                total = total + s[tx // 8]
            total = total + 100 * s[15 - tx // 8]
        B[tx] = total
    """)
    found = waits(made)
    assert found.count("tile_sync_threads") == 2 and "tile_sync_warp" in found
    a = np.arange(64, dtype=np.int32)
    got = execute(lowered(made, "sm_80"), A=a, B=np.zeros(128, np.int32))["B"]
    sums = a.reshape(4, 16).sum(0)
    np.testing.assert_array_equal(got, (sums + 100 * sums[::-1]).repeat(8))


# Chips whose copy engine tilec does not use copy by threads.
def bulk(count, after="T.barrier_arrive(done)"):
    return prim("A: T.Tensor((64, 64), 'float16'), B: T.Tensor((64, 64), 'float16')", f"""
    with T.Kernel(1, threads=128) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64, 64), 'float16')
        done = T.alloc_barrier(arrive_count={count})
        T.tma_copy(A[0:64, 0:64], s, barrier=done)
        {after}
        T.barrier_wait(done, 0)
        for i, j in T.Parallel(64, 64):
            B[i, j] = s[63 - i, j]
    """)


def test_a_bulk_copy_before_an_arrival_of_everybody_waits_for_nobody():
    made = bulk(128)
    text = for_target(made, "sm_90").text("cuda")
    body = text[text.index('extern "C"'):]
    start = body.index("tile_cp_async_16(&s[")
    assert body.index("tile_cp_async_arrive(&done") < body.index("tile_mbarrier_arrive(&done")
    assert "tile_sync_threads" not in body[start:]
    a = numbers((64, 64), "float16")
    np.testing.assert_array_equal(execute(lowered(made, "sm_90"), A=a, B=np.zeros_like(a))["B"], a[::-1])


@pytest.mark.parametrize("count, after", [(1, "if tx == 0:\n            T.barrier_arrive(done)"), (129, "T.barrier_arrive(done)")])
def test_where_others_arrive_the_threads_wait_for_each_other(count, after):
    text = for_target(bulk(count, after), "sm_90").text("cuda")
    body = text[text.index('extern "C"'):]
    assert "tile_cp_async_arrive" not in body
    assert "tile_sync_threads" in body[body.index("&s["):body.index("tile_mbarrier_arrive(&done")]
