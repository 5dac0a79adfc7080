"""Matrix operations that run on behind the statements that start them, in kernels without warps that only copy."""
from __future__ import annotations

import re

import numpy as np
from emit_support import for_target, prim
from transform_support import execute, lowered, numbers

TENSORS = "A: T.Tensor((64, 64), 'float16'), B: T.Tensor((64, 64), 'float16'), D: T.Tensor((64, 64), 'float16'), E: T.Tensor((64, 64), 'float16')"


def kernel(body, more="C: T.Tensor((64, 64), 'float32')"):
    return prim(f"{TENSORS}, {more}", f"""
    with T.Kernel(1, threads=128) as bx:
        tx = T.get_thread_binding()
        a = T.alloc_shared((64, 64), 'float16')
        b = T.alloc_shared((64, 64), 'float16')
        d = T.alloc_shared((64, 64), 'float16')
        s = T.alloc_shared((64, 64), 'float16')
        c = T.alloc_fragment((64, 64), 'float32')
        e = T.alloc_fragment((64, 64), 'float32')
        T.copy(A, a)
        T.copy(B, b)
        T.copy(D, d)
{body}
    """)


def steps(made):
    """What the kernel does, in order."""
    text = for_target(made, "sm_90a").text("cuda")
    text = text[text.index('extern "C"'):]
    known = {"tile_wgmma_m64": "start", "tile_wgmma_commit": "commit", "tile_wgmma_wait_0": "wait", "tile_wgmma_wait_1": "wait but one", "tile_sync_threads": "meet", "tile_fence_proxy_async": "fence",
             "tile_mbarrier_arrive": "arrive", "exp2f": "exp", "&a[": "a", "&s[": "s", "&E[": "E", "&C[": "C"}
    found = [known[m] for m in re.findall("|".join(map(re.escape, known)), text)]
    return [x for k, x in enumerate(found) if not k or found[k - 1] != x]


def values():
    return {name: numbers((64, 64), "float16", seed=k) for k, name in enumerate("ABD")}


SECOND = """
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.exp2(c[i, j] * 0.01)
        T.copy(c, s)
        T.gemm(d, b, e, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            C[i, j] = c[i, j] * e[i, j]
"""


def test_a_second_operation_starts_behind_the_first():
    made = kernel(SECOND)
    order = steps(made)
    first = order.index("start")
    assert order[first - 1:first + 5] == ["fence", "start", "commit", "start", "commit", "wait but one"], order
    assert order.index("exp") > order.index("wait but one") and order.index("wait") > order.index("exp")
    v = {k: x.astype(np.float32) for k, x in values().items()}
    got = execute(lowered(made, "sm_90a"), **values(), E=np.zeros((64, 64)))["C"]
    np.testing.assert_allclose(got, np.exp2((v["A"] @ v["B"].T) * 0.01) * (v["D"] @ v["B"].T), rtol=2e-2, atol=0.5)


def test_an_operation_whose_operand_is_made_between_stays():
    order = steps(kernel("""
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            c[i, j] = T.exp2(c[i, j])
        T.copy(c, s)
        T.gemm(s, b, e, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            C[i, j] = e[i, j]
"""))
    again = order.index("start", order.index("exp"))
    assert order.index("wait") < order.index("exp") < again and order[again - 1] == "fence"  # what threads wrote becomes known


OVERWRITTEN = """
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            s[i, j] = d[j, i]
        for i, j in T.Parallel(64, 64):
            E[i, j] = s[j, i]
        T.copy(D, a)
        for i, j in T.Parallel(64, 64):
            C[i, j] = c[i, j] + a[j, i]
"""


def test_operands_are_overwritten_after_everybody_has_waited():
    """The block meets while the operation runs; it meets once more before its operand changes."""
    made = kernel(OVERWRITTEN)
    order = steps(made)
    after = order[order.index("commit"):]
    assert after.index("E") < after.index("wait"), order  # it ran on
    assert after[after.index("wait"):][:3] == ["wait", "meet", "a"], order
    v = {k: x.astype(np.float32) for k, x in values().items()}
    got = execute(lowered(made, "sm_90a"), **values(), E=np.zeros((64, 64)))["C"]
    np.testing.assert_allclose(got, v["A"] @ v["B"].T + v["D"].T, rtol=1e-2, atol=0.1)


def test_others_are_told_after_the_operation():
    order = steps(kernel("""
        free = T.alloc_barrier(128)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        T.barrier_arrive(free)
        T.barrier_wait(free, 0)
        for i, j in T.Parallel(64, 64):
            C[i, j] = c[i, j]
"""))
    assert order.index("wait") < order.index("arrive")


def test_additions_to_one_accumulator_follow_each_other():
    order = steps(kernel("""
        T.clear(c)
        T.wgmma_gemm(a, b, c, transpose_B=True)
        T.wgmma_gemm(d, b, c, transpose_B=True)
        T.wait_wgmma(0)
        for i, j in T.Parallel(64, 64):
            C[i, j] = c[i, j]
"""))
    assert order[order.index("start") - 1:][:6] == ["fence", "start", "commit", "start", "commit", "wait"]
