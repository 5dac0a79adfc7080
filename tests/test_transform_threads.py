"""Barriers, divergent code, scalar statements, views, shared memory places; run thread by thread."""
from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hand_programs import gemm
from thread_interpreter import Fault
from tilec.ir.buffer import Buffer
from tilec.ir.expr import Call
from tilec.ir.stmt import Evaluate, If, Jump, map_body, walk
from tilec.transform.errors import LoweringError
from transform_support import device_functions, execute, lowered, numbers, prim, run


def _is_barrier(s) -> bool:
    return isinstance(s, Evaluate) and isinstance(s.value, Call) and (s.value.attrs or {}).get("name") == "tile_sync_threads"


def without_barrier(program, number: int):
    barriers = [s for s in walk(program.body) if _is_barrier(s)]
    victim = barriers[number]
    return replace(program, body=map_body(program.body, lambda s: None if s is victim else s))


EXCHANGE = ("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((64,), 'float32')
        for k in T.serial(3):
            for i in T.Parallel(64):
                s[i] = A[i] + k
            for i in T.Parallel(64):
                B[i] = s[63 - i]
    """)


interpreted = pytest.mark.skipif(os.environ.get("TILEC_EXECUTE_ON") == "gpu", reason="a GPU does not report races")


@interpreted
def test_barriers_where_threads_exchange_data_and_each_is_needed():
    program = lowered(prim(*EXCHANGE))
    a = numbers((64,))
    np.testing.assert_array_equal(execute(program, A=a)["B"], a[::-1] + 2)
    count = device_functions(program).count("tile_sync_threads")
    assert count == 2
    for number in range(count):
        with pytest.raises(Fault, match="without a barrier|never written"):
            execute(without_barrier(program, number), A=a)


@interpreted
@pytest.mark.parametrize("stages", [0, 3])
def test_every_barrier_of_a_gemm_is_needed(stages):
    program = lowered(gemm(32, 32, 64, 32, 32, 16, num_stages=stages, threads=64))
    a, b = numbers((32, 64), "float16"), numbers((64, 32), "float16", 1)
    execute(program, A=a, B=b)
    for number in range(device_functions(program).count("tile_sync_threads")):
        with pytest.raises((Fault, AssertionError), match="without a barrier|never written"):
            execute(without_barrier(program, number), A=a, B=b)


def test_a_loop_that_waits_for_shared_data():
    out = run("B: T.Tensor((4,), 'int32')", """
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((1,), 'int32')
        s[0] = 0
        while s[0] < 5:
            s[0] = s[0] + 2
        B[0] = s[0]
    """)
    assert out["B"][0] == 6


def test_a_loop_bound_in_memory_is_read_once():
    out = run("N: T.Tensor((1,), 'int32'), B: T.Tensor((8,), 'int32')", """
    with T.Kernel(1, threads=32) as b:
        for k in T.serial(N[0]):
            N[0] = 0
            B[k] = k + 1
    """, N=np.array([5], np.int32), B=np.zeros(8, np.int32))
    np.testing.assert_array_equal(out["B"], [1, 2, 3, 4, 5, 0, 0, 0])


def test_small_tiles_updated_in_place_by_more_threads_than_elements():
    a = numbers((8,))
    out = run("A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'float32'), C: T.Tensor((8,), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        s = T.alloc_shared((8,), 'float32')
        f = T.alloc_fragment((8,), 'float32')
        T.copy(A, s)
        for i in T.Parallel(8):
            f[i] = s[i]
            s[i] = s[i] * 2.0
        T.copy(s, B)
        T.copy(f, C)
    """, A=a)
    np.testing.assert_array_equal(out["B"], a * 2)
    np.testing.assert_array_equal(out["C"], a)


def test_elements_of_fragments_outside_of_parallel_loops():
    a = numbers((64,))
    out = run("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        f = T.alloc_fragment((64,), 'float32')
        T.copy(A, f)
        f[3] = f[5] + 1.0
        x = f[3]
        for i in T.Parallel(64):
            f[i] = f[i] * x
        T.copy(f, B)
    """, A=a)
    want = a.copy()
    want[3] = a[5] + 1
    np.testing.assert_array_equal(out["B"], want * want[3])


def test_thread_indices_and_private_arrays():
    a = numbers((64,))
    out = run("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(2, threads=32) as b:
        tx = T.get_thread_binding()
        r = T.alloc_local((4,), 'float32')
        x = T.alloc_var('float32')
        x = 0.0
        for k in T.serial(4):
            r[k] = A[b * 32 + tx] * k
        for k in T.unroll(4):
            x = x + r[k]
        if tx < 16:
            B[b * 32 + tx] = x
        else:
            B[b * 32 + tx] = 0.0 - x
    """, A=a)
    sign = np.where(np.arange(64) % 32 < 16, 1, -1)
    np.testing.assert_array_equal(out["B"], a * 6 * sign)


def test_a_tile_operation_that_some_threads_skip_is_refused():
    with pytest.raises(LoweringError, match="all threads"):
        run("A: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        tx = T.get_thread_binding()
        if tx < 16:
            for i in T.Parallel(64):
                A[i] = 1.0
    """)


def test_whole_warps_share_out_a_tile_of_their_own():
    out = run("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'float32')
        if tx >= 96:
            for i in T.Parallel(64):
                s[i] = i
        T.copy(s, A)
        if tx < 64:
            for i in T.Parallel(64):
                B[i] = s[63 - i]
    """)
    np.testing.assert_array_equal(out["A"], np.arange(64))
    np.testing.assert_array_equal(out["B"], np.arange(64)[::-1])


def test_an_exchange_under_a_condition_on_the_thread_is_refused():
    with pytest.raises(LoweringError, match="barrier"):
        run("A: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'float32')
        if tx < 48:
            s[tx] = A[tx]
            A[tx] = s[47 - tx]
    """)


def test_a_thread_may_use_its_own_elements_under_a_condition():
    a = numbers((64,))
    out = run("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), 'float32')
        if tx < 16:
            for k in T.serial(2):
                s[tx * 2 + k] = A[tx * 2 + k]
            for k in T.serial(2):
                B[tx * 2 + k] = s[tx * 2 + 1 - k]
    """, A=a, B=np.zeros(64, np.float32))
    want = np.zeros(64, np.float32)
    want[:32] = a[:32].reshape(16, 2)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(out["B"], want)


def test_uniform_conditions_around_tiles():
    a = numbers((2, 64))
    out = run("A: T.Tensor((2, 64), 'float32'), M: T.Tensor((2,), 'int32'), B: T.Tensor((2, 64), 'float32')", """
    with T.Kernel(2, threads=32) as b:
        s = T.alloc_shared((64,), 'float32')
        T.clear(s)
        if M[b] > 0:
            T.copy(A[b, 0:64], s)
        T.copy(s, B[b, 0:64])
    """, A=a, M=np.array([0, 1], np.int32))
    np.testing.assert_array_equal(out["B"], a * np.array([[0], [1]], np.float32))


def test_buffers_that_do_not_live_together_share_bytes():
    program = lowered(prim("A: T.Tensor((64, 64), 'float32'), B: T.Tensor((64, 64), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((64, 64), 'float32')
        t = T.alloc_shared((64, 64), 'float32')
        f = T.alloc_fragment((64, 64), 'float32')
        T.copy(A, s)
        T.copy(s, f)
        T.copy(f, t)
        T.copy(t, B)
    """))
    assert program.launches()[0].attrs["shared_bytes"] == 64 * 64 * 4
    a = numbers((64, 64))
    np.testing.assert_array_equal(execute(program, A=a)["B"], a)


def test_lowering_leaves_the_tile_program_alone():
    program = gemm(64, 64, 64, 32, 32, 32)
    first = lowered(program, "sm_80")
    before = [dict(b.attrs) for b in program.buffers()]
    second = lowered(program, "sm_75")
    assert before == [dict(b.attrs) for b in program.buffers()] and not any("byte_offset" in a for a in before)
    assert first.launches()[0].attrs["shared_bytes"] != second.launches()[0].attrs["shared_bytes"]
    assert not set(_shared(first)) & set(_shared(second))


def _shared(program) -> set[Buffer]:
    return {s.buffer for s in walk(program.body) if hasattr(s, "buffer") and s.buffer.is_shared()}


def test_too_much_shared_memory_is_an_error_with_sizes():
    with pytest.raises(LoweringError, match="A_shared 262144"):
        lowered(gemm(512, 512, 512, 256, 256, 128, num_stages=4), "sm_80")


def test_views_of_shared_memory_in_another_type_and_shape():
    a = numbers((16, 32), "float32")
    out = run("A: T.Tensor((16, 32), 'float32'), B: T.Tensor((512,), 'int32'), C: T.Tensor((32, 16), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        s = T.alloc_shared((16, 32), 'float32')
        v = T.view(s, (512,), 'int32')
        r = T.reshape(s, (32, 16))
        T.copy(A, s)
        T.copy(v, B)
        T.copy(r, C)
    """, A=a)
    np.testing.assert_array_equal(out["B"], a.reshape(-1).view(np.int32))
    np.testing.assert_array_equal(out["C"], a.reshape(32, 16))


def test_printing_and_assertions():
    program = lowered(prim("A: T.Tensor((32,), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        f = T.alloc_fragment((32,), 'float32')
        T.copy(A, f)
        T.print(f)
        T.print(A[0])
        T.device_assert(A[0] > 0)
    """))
    names = device_functions(program)
    assert sum(n.startswith("tile_print") for n in names) == 2 and any(n.startswith("tile_assert") for n in names)


def test_a_return_of_some_threads_before_tile_operations_is_refused():
    program = prim("A: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        tx = T.get_thread_binding()
        if tx > 3:
            A[0] = 2.0
        for i in T.Parallel(64):
            A[i] = 1.0
    """)
    body = map_body(program.body, lambda s: replace(s, then=(Jump(s.span, "return"),)) if isinstance(s, If) else s)
    with pytest.raises(LoweringError, match="some threads"):
        lowered(replace(program, body=body))


def test_views_of_fragments_are_the_same_registers():
    a = numbers((8, 32), "float32")
    out = run("A: T.Tensor((8, 32), 'float32'), B: T.Tensor((8, 4), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        f = T.alloc_fragment((8, 32), 'float32')
        r = T.alloc_fragment((8, 4), 'float32')
        T.copy(A, f)
        v = T.reshape(f, (8, 4, 8))
        for i, j, k in T.Parallel(8, 4, 8):
            v[i, j, k] = v[i, j, k] * 2.0
        T.reduce_sum(v, r, dim=2)
        T.copy(r, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], (a * 2).reshape(8, 4, 8).sum(2))


def test_indices_beyond_a_fragment_do_not_reach_other_tiles():
    """Where a fragment's values pass through shared memory, an index past its end must not touch what lies behind the copy."""
    program = prim("A: T.Tensor((64,), 'float32'), B: T.Tensor((1,), 'float32'), C: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        a = T.alloc_fragment((64,), 'float32')
        s = T.alloc_fragment((1,), 'float32')
        T.copy(A, a)
        T.clear(s)
        for i in T.Parallel(64):
            s[i] = B[0]
        for i in T.Parallel(64):
            a[i] = a[i] + s[0]
        T.copy(a, C)
    """)
    made = lowered(program)
    a, b = np.arange(64, dtype=np.float32), np.full((1,), 3, np.float32)
    assert np.array_equal(execute(made, A=a, B=b)["C"], a + 3)


def test_pieces_of_a_matrix_operand_are_read_in_registers():
    """A loop over a part of a fragment, at a place that an outer loop decides, needs no exchange."""
    a, b = numbers((32, 64), "float16"), numbers((64, 16), "float16", 1)
    program = lowered(prim("A: T.Tensor((32, 64), 'float16'), B: T.Tensor((64, 16), 'float16'), C: T.Tensor((32, 16), 'float32'), S: T.Tensor((32,), 'float32')", """
    with T.Kernel(1, threads=64) as bx:
        a = T.alloc_fragment((32, 64), 'float16')
        b = T.alloc_shared((64, 16), 'float16')
        c = T.alloc_fragment((32, 16), 'float32')
        part = T.alloc_fragment((32, 8), 'float32')
        total = T.alloc_fragment((32,), 'float32')
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.clear(part)
        for step in T.serial(8):
            for i, j in T.Parallel(32, 8):
                part[i, j] += T.cast(a[i, step * 8 + j], 'float32') * T.cast(a[i, step * 8 + j], 'float32')
        T.gemm(a, b, c)
        T.reduce_sum(part, total, dim=1)
        T.copy(c, C)
        T.copy(total, S)
    """))
    assert not [n for n in program.attrs["notes"] if "exchange" in n]
    out = execute(program, A=a, B=b)
    np.testing.assert_allclose(out["C"], a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_allclose(out["S"], (a.astype(np.float32) ** 2).sum(1))


def test_a_fragment_in_another_shape_is_reduced_in_registers():
    a, b, w = numbers((32, 16), "float16"), numbers((64, 16), "float16", 1), numbers((2, 32), "float32", 2)
    program = lowered(prim("A: T.Tensor((32, 16), 'float16'), B: T.Tensor((64, 16), 'float16'), W: T.Tensor((2, 32), 'float32'), S: T.Tensor((2, 32), 'float32')", """
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_shared((32, 16), 'float16')
        b = T.alloc_shared((64, 16), 'float16')
        c = T.alloc_fragment((32, 64), 'float32')
        heads = T.reshape(c, (32, 2, 32))
        w = T.alloc_fragment((2, 32), 'float32')
        s = T.alloc_fragment((32, 2), 'float32')
        T.copy(A, a)
        T.copy(B, b)
        T.copy(W, w)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
        for i, j, k in T.Parallel(32, 2, 32):
            heads[i, j, k] = T.max(heads[i, j, k], 0) * w[j, k]
        T.reduce_sum(heads, s, dim=-1, clear=True)
        for j, i in T.Parallel(2, 32):
            S[j, i] = s[i, j]
    """))
    assert not [n for n in program.attrs["notes"] if "exchange" in n]
    out = execute(program, A=a, B=b, W=w)
    c = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T, 0).reshape(32, 2, 32) * w
    np.testing.assert_allclose(out["S"], c.sum(-1).T, rtol=1e-5)


@pytest.mark.parametrize("value", ["A[tx * 4 + v] * 2.0", "A[tx * 4 + v]", "x[v] * x[0]"])
def test_vectorised_stores_are_waited_for(value):
    """Whether they become one wide store or several, another thread reads what they wrote, and the next round overwrites it."""
    body = f"""
with T.Kernel(1, threads=32) as bx:
    tx = T.get_thread_binding()
    s = T.alloc_shared((128,), 'float32')
    x = T.alloc_local((4,), 'float32')
    for v in T.vectorized(4):
        x[v] = A[tx * 4 + v] + 1.0
    for k in T.serial(2):
        for v in T.vectorized(4):
            s[tx * 4 + v] = {value}
        C[k, tx] = s[127 - tx]
"""
    a = np.arange(128, dtype=np.float32)
    got = execute(lowered(prim("A: T.Tensor((128,), 'float32'), C: T.Tensor((2, 32), 'float32')", body)), A=a)["C"]
    x = (a.reshape(32, 4) + 1.0)
    made = {"A[tx * 4 + v] * 2.0": a * 2, "A[tx * 4 + v]": a, "x[v] * x[0]": (x * x[:, :1]).reshape(-1)}[value]
    assert np.array_equal(got, np.stack([made[::-1][:32]] * 2))


def test_copies_of_a_threads_own_tiles():
    """From and to a thread's array at places that depend on the thread, and fills of such places: each thread does all of its own."""
    body = """
with T.Kernel(2, threads=(8, 2)) as bx:
    tx = T.get_thread_binding(0)
    ty = T.get_thread_binding(1)
    x = T.alloc_local((16,), 'float32')
    T.copy(A[bx * 8 + tx, ty * 16:ty * 16 + 16], x)
    for i in T.serial(16):
        x[i] = x[i] + ty
    T.copy(x, C[bx * 8 + tx, ty * 16:ty * 16 + 16])
    T.fill(D[bx * 16 + ty * 8 + tx, 0:4], 3.0)
    if tx < 4:
        T.copy(x[0:4], D[bx * 16 + ty * 8 + tx, 2:6])
"""
    signature = "A: T.Tensor((16, 32), 'float32'), C: T.Tensor((16, 32), 'float32'), D: T.Tensor((32, 6), 'float32')"
    a = np.random.default_rng(0).integers(-9, 9, (16, 32)).astype(np.float32)
    got = execute(lowered(prim(signature, body)), A=a, D=np.zeros((32, 6), np.float32))
    expected = a.copy()
    expected[:, 16:] += 1
    assert np.array_equal(got["C"], expected)
    wanted = np.zeros((32, 6), np.float32)
    wanted[:, :4] = 3.0
    for n in range(32):
        block, ty, tx = n // 16, n // 8 % 2, n % 8
        if tx < 4:
            wanted[n, 2:6] = expected[block * 8 + tx, ty * 16:ty * 16 + 4]
    assert np.array_equal(got["D"], wanted)


def test_packed_numbers_are_taken_apart_where_they_are_needed():
    """Bytes of two numbers each, in registers of the threads whose matrix operand they become."""
    packed, b = np.random.default_rng(3).integers(0, 256, (32, 32)).astype(np.uint8), numbers((64, 16), "float16", 1)
    program = lowered(prim("A: T.Tensor((32, 32), 'uint8'), B: T.Tensor((64, 16), 'float16'), C: T.Tensor((32, 16), 'float32')", """
    with T.Kernel(1, threads=64) as bx:
        tile = T.alloc_shared((32, 32), 'uint8')
        p = T.alloc_fragment((32, 32), 'uint8')
        a = T.alloc_fragment((32, 64), 'float16')
        b = T.alloc_shared((64, 16), 'float16')
        c = T.alloc_fragment((32, 16), 'float32')
        T.copy(A, tile)
        T.copy(B, b)
        T.copy(tile, p)
        for i, j in T.Parallel(32, 64):
            a[i, j] = T.cast((p[i, j // 2] >> (j % 2 * 4)) & 15, 'float16')
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C)
    """))
    assert not [n for n in program.attrs["notes"] if "exchange" in n]
    a = np.stack([packed & 15, packed >> 4], -1).reshape(32, 64).astype(np.float32)
    np.testing.assert_allclose(execute(program, A=packed, B=b)["C"], a @ b.astype(np.float32))
