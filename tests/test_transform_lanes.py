"""Vectors of one thread: slices, T.Ramp and T.Broadcast, wide loads and stores, by three implementations and against torch."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from emit_support import for_target, prim  # noqa: E402
from three_ways import three_ways  # noqa: E402
from tilec.transform.errors import LoweringError  # noqa: E402


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype, lanes", [("int8", 32), ("uint8", 16), ("float32", 4), ("float16", 8)])
def test_a_broadcast_fills_a_slice_of_private_memory(dtype, lanes):
    source, out = numbers(1, dtype=getattr(torch, dtype)).abs() + 3, torch.zeros(lanes, dtype=getattr(torch, dtype))
    three_ways(f"A: T.Tensor((1,), '{dtype}'), B: T.Tensor(({lanes},), '{dtype}')", f"""
    with T.Kernel(1, threads=1) as _:
        packed = T.alloc_local(({lanes},), '{dtype}')
        packed[0:{lanes}] = T.Broadcast(A[0], {lanes})
        for i in T.serial({lanes}):
            B[i] = packed[i]
    """, source, out)
    assert bool((out == source[0]).all())


def test_a_vector_of_indices_counts_from_the_end_where_it_is_negative():
    a, b = torch.arange(64.0), torch.zeros(4, 4)
    three_ways("A: T.Tensor((64,), 'float32'), B: T.Tensor((4, 4), 'float32')", """
    with T.Kernel(1, threads=1) as _:
        for t in T.serial(4):
            B[t, T.Ramp(0, 1, 4)] = A[T.Ramp(t - 2, 1, 4)]
    """, a, b)
    assert b.tolist() == [[62, 63, 0, 1], [63, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4]]


def test_a_vector_store_with_a_stride():
    a, b = torch.full((32,), -1.0), numbers(4)
    three_ways("A: T.Tensor((32,), 'float32'), B: T.Tensor((4,), 'float32')", """
    with T.Kernel(1, threads=1) as _:
        A[T.Ramp(3, 5, 4)] = B[T.Ramp(0, 1, 4)] * T.float32(2)
    """, a, b)
    assert torch.equal(a[3:19:5], b * 2) and int((a == -1).sum()) >= 28 - 4


def test_a_slice_moved_within_its_buffer_is_read_before_it_is_written():
    a = torch.arange(8.0)
    three_ways("A: T.Tensor((8,), 'float32')", """
    with T.Kernel(1, threads=1) as _:
        A[1:5] = A[0:4]
    """, a)
    assert a.tolist() == [0, 0, 1, 2, 3, 5, 6, 7]


@pytest.mark.parametrize("bits", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_wide_loads_and_stores_move_bytes(bits, dtype):
    kind = getattr(torch, dtype)
    size = bits // (torch.tensor([], dtype=kind).element_size() * 8)
    x, y = numbers(64, dtype=kind).abs(), torch.zeros(64, dtype=kind)
    three_ways(f"X: T.Tensor((64,), '{dtype}'), Y: T.Tensor((64,), '{dtype}')", f"""
    with T.Kernel({64 // size}, threads=32) as pid:
        val = T.ldg{bits}(X[pid * {size}: pid * {size} + {size}])
        T.stg{bits}(Y[pid * {size}: pid * {size} + {size}], val)
    """, x, y)
    assert torch.equal(x, y)


def test_wide_loads_and_stores_under_conditions():
    x, y = numbers(64), torch.full((64,), 9.0)
    three_ways("X: T.Tensor((64,), 'float32'), Y: T.Tensor((64,), 'float32')", """
    with T.Kernel(16, threads=32) as pid:
        val = T.ldg128(X[pid * 4: pid * 4 + 4], pred=pid < 4)
        T.stg128(Y[pid * 4: pid * 4 + 4], val, pred=pid < 8)
    """, x, y)
    assert torch.equal(y[:16], x[:16]) and bool((y[16:32] == 0).all()) and bool((y[32:] == 9).all())


def test_words_of_memory_as_another_type():
    x, y = numbers(16, dtype=torch.float16), torch.zeros(8, dtype=torch.int32)
    three_ways("X: T.Tensor((16,), 'float16'), Y: T.Tensor((8,), 'int32')", """
    with T.Kernel(2, threads=32) as pid:
        Y[pid * 4: pid * 4 + 4] = T.reinterpret(T.ldg128(X[pid * 8: pid * 8 + 8]), "int32x4")
    """, x, y)
    assert torch.equal(x.view(torch.int32), y)


def test_words_in_registers_as_smaller_values():
    x, y = numbers(4, dtype=torch.int32), torch.zeros(8, dtype=torch.float16)
    three_ways("X: T.Tensor((4,), 'int32'), Y: T.Tensor((8,), 'float16')", """
    with T.Kernel(1, threads=32) as pid:
        Y[0:8] = T.reinterpret(X[T.Ramp(0, 1, 4)], "float16x8")
    """, x, y)
    assert torch.equal(x, y.view(torch.int32))


def test_a_wide_load_runs_over_the_ends_of_rows():
    x, y = numbers(6, 2), torch.zeros(12)
    three_ways("X: T.Tensor((6, 2), 'float32'), Y: T.Tensor((12,), 'float32')", """
    with T.Kernel(3, threads=32) as pid:
        Y[pid * 4: pid * 4 + 4] = T.reinterpret(T.ldg128(X[pid * 2, 0]), "float32x4")
    """, x, y)
    assert torch.equal(x.reshape(-1), y)


def test_shared_words():
    x, y = numbers(64), torch.zeros(64)
    three_ways("X: T.Tensor((64,), 'float32'), Y: T.Tensor((64,), 'float32')", """
    with T.Kernel(16, threads=32) as pid:
        s = T.alloc_shared((64,), 'float32')
        T.sts64(s[pid * 2], T.ldg64(X[pid * 4]))
        T.sts64(s[pid * 2 + 2], T.ldg64(X[pid * 4 + 2]))
        T.sync_threads()
        T.stg128(Y[pid * 4], T.lds128(s[pid * 2])) if False else T.stg64(Y[pid * 4], T.lds64(s[pid * 2]))
        T.stg64(Y[pid * 4 + 2], T.lds64(s[pid * 2 + 2]))
    """.replace("T.stg128(Y[pid * 4], T.lds128(s[pid * 2])) if False else ", ""), x, y)
    assert torch.equal(x, y)


def test_pairs_are_computed_lane_by_lane():
    x, y, z = numbers(8), numbers(8, seed=1), torch.zeros(8)
    three_ways("X: T.Tensor((8,), 'float32'), Y: T.Tensor((8,), 'float32'), Z: T.Tensor((8,), 'float32')", """
    with T.Kernel(4, threads=1) as b:
        i = T.Ramp(b * 2, 1, 2)
        Z[i] = T.max2(T.add2(X[i], Y[i]), T.mul2(X[i], Y[i]))
    """, x, y, z)
    assert torch.equal(z, torch.maximum(x + y, x * y))


@pytest.mark.parametrize("lanes", [2, 4])
def test_atomic_vectors_give_the_values_before(lanes):
    dst, val, prev = numbers(lanes), numbers(lanes, seed=1), torch.zeros(lanes)
    before = dst.clone()
    three_ways(f"D: T.Tensor(({lanes},), 'float32'), V: T.Tensor(({lanes},), 'float32'), P: T.Tensor(({lanes},), 'float32')", f"""
    with T.Kernel(1, threads=1) as b:
        P[0:{lanes}] = T.atomic_addx{lanes}(D[0:{lanes}], V[0:{lanes}], return_prev=True)
    """, dst, val, prev, cpu=False)
    assert torch.equal(prev, before) and torch.equal(dst, before + val)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_a_wide_copy_is_one_instruction(target):
    made = for_target(prim("X: T.Tensor((4096,), 'float32'), Y: T.Tensor((4096,), 'float32')", """
    with T.Kernel(8, threads=128) as b:
        t = T.get_thread_binding()
        T.stg128(Y[(b * 128 + t) * 4], T.ldg128(X[(b * 128 + t) * 4]))
    """), target)
    assert "uint4" in made.text("cuda")


def test_bits_that_do_not_fit_are_refused():
    made = prim("X: T.Tensor((64,), 'float32'), Y: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=1) as b:
        T.stg64(Y[0], T.ldg128(X[0]))
    """)
    with pytest.raises(LoweringError, match="64 bits are stored, but the value is uint32x4"):
        for_target(made, "sm_90a")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_variable_that_holds_a_vector(dtype):
    a, b = numbers(2, dtype=getattr(torch, dtype)), torch.zeros(2, dtype=getattr(torch, dtype))
    three_ways(f"A: T.Tensor((2,), '{dtype}'), B: T.Tensor((2,), '{dtype}')", f"""
    with T.Kernel(1, threads=1):
        packed = T.alloc_var('{dtype}x2')
        packed = T.{dtype}x2(A[1], A[0])
        B[0] = T.extract_lane(packed, 0)
        B[1] = T.extract_lane(packed, 1)
    """, a, b, interpreter=False)
    assert torch.equal(b, a.flip(0))


def test_rows_of_vectors_in_private_memory():
    a, b = numbers(16), torch.zeros(16)
    three_ways("A: T.Tensor((16,), 'float32'), B: T.Tensor((16,), 'float32')", """
    with T.Kernel(1, threads=1):
        held = T.alloc_local((4,), 'float32x4')
        for i in T.serial(4):
            held[i] = A[T.Ramp(i * 4, 1, 4)]
        for i in T.serial(4):
            B[T.Ramp(i * 4, 1, 4)] = held[3 - i] + held[i]
    """, a, b, interpreter=False)
    assert torch.equal(b.reshape(4, 4), a.reshape(4, 4) + a.reshape(4, 4).flip(0))
