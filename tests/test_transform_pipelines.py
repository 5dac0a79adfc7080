"""Software pipelines and matrix products, run thread by thread."""
from __future__ import annotations

import numpy as np
import pytest
from hand_programs import gemm
from transform_support import device_functions, execute, lowered, numbers, prim, run, text_of


def sum_of_tiles(trips: int, stages: int, tail: int = 0) -> tuple[str, str]:
    """B = sum over k of A[k]: a pipelined loop that reads every tile once."""
    return f"A: T.Tensor(({max(trips * 16 - tail, 1)}, 32), 'float32'), B: T.Tensor((16, 32), 'float32')", f"""
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        f = T.alloc_fragment((16, 32), 'float32')
        T.clear(f)
        for k in T.Pipelined({trips}, num_stages={stages}):
            T.copy(A[k * 16, 0], s)
            for i, j in T.Parallel(16, 32):
                f[i, j] += s[i, j]
        T.copy(f, B)
    """


def expected(a: np.ndarray, trips: int) -> np.ndarray:
    whole = np.zeros((trips * 16, 32), np.float32)
    count = min(len(a), len(whole))
    whole[:count] = a[:count]
    return whole.reshape(trips, 16, 32).sum(0) if trips else np.zeros((16, 32), np.float32)


@pytest.mark.parametrize("trips", range(6))
@pytest.mark.parametrize("stages", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_every_short_pipeline(trips, stages, target):
    signature, body = sum_of_tiles(trips, stages)
    a = numbers((max(trips * 16, 1), 32))
    np.testing.assert_array_equal(run(signature, body, target, A=a)["B"], expected(a, trips))


@pytest.mark.parametrize("stages", [2, 3])
def test_the_last_tile_may_be_incomplete(stages):
    signature, body = sum_of_tiles(3, stages, 5)
    a = numbers((43, 32))
    np.testing.assert_array_equal(run(signature, body, A=a)["B"], expected(a, 3))


@pytest.mark.parametrize("target, expect", [("sm_80", True), ("sm_75", False)])
def test_copies_are_asynchronous_where_the_chip_can(target, expect):
    signature, body = sum_of_tiles(4, 3)
    names = device_functions(lowered(prim(signature, body), target))
    assert ("tile_cp_async_16" in names) == expect
    assert ("tile_cp_async_wait_1" in names) == expect


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_trip_counts_known_when_the_kernel_runs(trips, stages):
    a = numbers((max(trips, 1), 16, 32))
    out = run("A: T.Tensor((T.dynamic('n'), 16, 32), 'float32'), N: T.Tensor((1,), 'int32'), B: T.Tensor((16, 32), 'float32')", f"""
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        f = T.alloc_fragment((16, 32), 'float32')
        T.clear(f)
        for k in T.Pipelined(N[0], num_stages={stages}):
            T.copy(A[k, 0:16, 0:32], s)
            for i, j in T.Parallel(16, 32):
                f[i, j] += s[i, j]
        T.copy(f, B)
    """, A=a, N=np.array([trips], np.int32))
    np.testing.assert_array_equal(out["B"], a[:trips].sum(0) if trips else np.zeros((16, 32)))


def test_indices_through_names_and_tables_run_ahead():
    a, table = numbers((6, 16, 32)), np.array([3, 0, 5, 1], np.int32)
    program = lowered(prim("A: T.Tensor((6, 16, 32), 'float32'), I: T.Tensor((4,), 'int32'), B: T.Tensor((4, 16, 32), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        for k in T.Pipelined(4, num_stages=2):
            at = I[k]
            T.copy(A[at, 0:16, 0:32], s)
            T.copy(s, B[k, 0:16, 0:32])
    """))
    assert any(n.startswith("tile_cp_async_16") for n in device_functions(program))
    np.testing.assert_array_equal(execute(program, A=a, I=table)["B"], a[table])


@pytest.mark.parametrize("change", ["reads before", "writes twice", "uses after", "writes the source"])
def test_what_cannot_run_ahead_stays_in_its_iteration(change):
    lines = {"reads before": ("T.copy(s, B[k, 0:16, 0:32])\n            T.copy(A[k, 0:16, 0:32], s)", ""),
             "writes twice": ("T.copy(A[k, 0:16, 0:32], s)\n            T.fill(s[0:1, 0:32], 1.0)\n            T.copy(s, B[k, 0:16, 0:32])", ""),
             "uses after": ("T.copy(A[k, 0:16, 0:32], s)\n            T.copy(s, B[k, 0:16, 0:32])", "T.copy(s, B[0, 0:16, 0:32])"),
             "writes the source": ("T.copy(A[k, 0:16, 0:32], s)\n            T.copy(s, A[k + 1, 0:16, 0:32])\n            T.copy(s, B[k, 0:16, 0:32])", "")}
    inner, after = lines[change]
    program = lowered(prim("A: T.Tensor((5, 16, 32), 'float32'), B: T.Tensor((4, 16, 32), 'float32')", f"""
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        T.clear(s)
        for k in T.Pipelined(4, num_stages=3):
            {inner}
        {after}
    """))
    assert not any("cp_async" in n for n in device_functions(program))
    a = numbers((5, 16, 32))
    want = a[:4].copy()
    if change == "reads before":
        want = np.concatenate([np.zeros((1, 16, 32), np.float32), a[:3]])
    elif change == "writes twice":
        want[:, 0] = 1
    elif change == "uses after":
        want[0] = a[3]
    else:
        want[:] = a[0]
    np.testing.assert_array_equal(execute(program, A=a)["B"], want)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype, accum", [("float16", "float32"), ("float32", "float32"), ("int8", "int32")])
def test_gemm(target, dtype, accum):
    made = lowered(gemm(32, 32, 64, 32, 32, 32, dtype=dtype, accum=accum, num_stages=2, threads=64), target)
    a, b = numbers((32, 64), dtype), numbers((64, 32), dtype, 1)
    out = execute(made, A=a, B=b)["C"]
    want = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    np.testing.assert_allclose(out, want, rtol=2e-3)


def test_gemm_with_tails():
    made = lowered(gemm(45, 40, 72, 32, 32, 32, num_stages=3, threads=64))
    a, b = numbers((45, 72), "float16"), numbers((72, 40), "float16", 1)
    np.testing.assert_allclose(execute(made, A=a, B=b)["C"], (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16), rtol=2e-3)


def test_attention_chain_of_two_products():
    q, k, v = numbers((32, 32), "float16"), numbers((64, 32), "float16", 1), numbers((64, 32), "float16", 2)
    out = run("Q: T.Tensor((32, 32), 'float16'), K: T.Tensor((64, 32), 'float16'), V: T.Tensor((64, 32), 'float16'), O: T.Tensor((32, 32), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        qs = T.alloc_shared((32, 32), 'float16')
        ks = T.alloc_shared((32, 32), 'float16')
        vs = T.alloc_shared((32, 32), 'float16')
        s = T.alloc_fragment((32, 32), 'float32')
        p = T.alloc_fragment((32, 32), 'float16')
        o = T.alloc_fragment((32, 32), 'float32')
        m = T.alloc_fragment((32,), 'float32')
        mp = T.alloc_fragment((32,), 'float32')
        scale = T.alloc_fragment((32,), 'float32')
        part = T.alloc_fragment((32,), 'float32')
        total = T.alloc_fragment((32,), 'float32')
        T.copy(Q, qs)
        T.clear(o)
        T.clear(total)
        T.fill(m, -T.infinity('float32'))
        for n in T.Pipelined(2, num_stages=2):
            T.copy(K[n * 32, 0], ks)
            T.copy(V[n * 32, 0], vs)
            T.clear(s)
            T.gemm(qs, ks, s, transpose_B=True)
            T.copy(m, mp)
            T.reduce_max(s, m, dim=1, clear=False)
            for i in T.Parallel(32):
                scale[i] = T.exp(mp[i] - m[i])
            for i, j in T.Parallel(32, 32):
                s[i, j] = T.exp(s[i, j] - m[i])
            T.reduce_sum(s, part, dim=1)
            for i in T.Parallel(32):
                total[i] = total[i] * scale[i] + part[i]
            T.copy(s, p)
            for i, j in T.Parallel(32, 32):
                o[i, j] *= scale[i]
            T.gemm(p, vs, o)
        for i, j in T.Parallel(32, 32):
            o[i, j] /= total[i]
        T.copy(o, O)
    """, Q=q, K=k, V=v)
    s = q.astype(np.float64) @ k.T.astype(np.float64)
    e = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out["O"], e / e.sum(1, keepdims=True) @ v.astype(np.float64), rtol=5e-3, atol=5e-3)


def test_two_pipelines_in_a_loop_reuse_their_stages():
    a = numbers((2, 3, 16, 32))
    out = run("A: T.Tensor((2, 3, 16, 32), 'float32'), B: T.Tensor((2, 16, 32), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        f = T.alloc_fragment((16, 32), 'float32')
        for o in T.serial(2):
            T.clear(f)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[o, k, 0:16, 0:32], s)
                for i, j in T.Parallel(16, 32):
                    f[i, j] += s[i, j]
            T.copy(f, B[o, 0:16, 0:32])
    """, A=a)
    np.testing.assert_array_equal(out["B"], a.sum(1))


def test_a_pipeline_has_one_barrier_an_iteration():
    signature, body = sum_of_tiles(4, 3)
    text = text_of(lowered(prim(signature, body)))
    assert text and device_functions(lowered(prim(signature, body))).count("tile_sync_threads") == 1
