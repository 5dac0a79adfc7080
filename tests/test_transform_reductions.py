"""Reductions, scans and atomics, run thread by thread."""
from __future__ import annotations

import numpy as np
import pytest
from tilec.transform.errors import LoweringError
from transform_support import device_functions, execute, lowered, numbers, prim, run, text_of

_NUMPY = {"sum": np.sum, "max": np.max, "min": np.min, "abssum": lambda a, axis: np.sum(np.abs(a), axis), "absmax": lambda a, axis: np.max(np.abs(a), axis)}


@pytest.mark.parametrize("kind", sorted(_NUMPY))
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape, threads", [((16, 32), 32), ((8, 64), 128), ((33, 12), 64)])
def test_reductions_of_fragments(kind, dim, shape, threads):
    a = numbers(shape, "float32")
    n = shape[1 - dim]
    out = run(f"A: T.Tensor({shape}, 'float32'), B: T.Tensor(({n},), 'float32')", f"""
    with T.Kernel(1, threads={threads}) as b:
        f = T.alloc_fragment({shape}, 'float32')
        r = T.alloc_fragment(({n},), 'float32')
        T.copy(A, f)
        T.reduce_{kind}(f, r, dim={dim})
        T.copy(r, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], _NUMPY[kind](a, dim))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_reductions_of_shared_tiles_that_go_on_from_the_old_value(dtype):
    a, start = numbers((16, 32), dtype), numbers((16,), dtype, 3)
    out = run(f"A: T.Tensor((16, 32), '{dtype}'), S: T.Tensor((16,), '{dtype}'), B: T.Tensor((16,), '{dtype}')", f"""
    with T.Kernel(1, threads=64) as b:
        s = T.alloc_shared((16, 32), '{dtype}')
        r = T.alloc_fragment((16,), '{dtype}')
        T.copy(A, s)
        T.copy(S, r)
        T.reduce_sum(s, r, dim=1, clear=False)
        T.copy(r, B)
    """, A=a, S=start)
    np.testing.assert_array_equal(out["B"], a.sum(1) + start)


@pytest.mark.parametrize("kind, op", [("bitand", np.bitwise_and), ("bitor", np.bitwise_or), ("bitxor", np.bitwise_xor)])
def test_bitwise_reductions(kind, op):
    a = np.random.default_rng(0).integers(0, 2**20, (8, 16)).astype(np.int32)
    out = run("A: T.Tensor((8, 16), 'int32'), B: T.Tensor((8,), 'int32')", f"""
    with T.Kernel(1, threads=32) as b:
        f = T.alloc_fragment((8, 16), 'int32')
        r = T.alloc_fragment((8,), 'int32')
        T.copy(A, f)
        T.reduce_{kind}(f, r, dim=1)
        T.copy(r, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], op.reduce(a, 1))


def test_three_dimensions_and_the_middle_one():
    a = numbers((4, 8, 16), "float32")
    out = run("A: T.Tensor((4, 8, 16), 'float32'), B: T.Tensor((4, 16), 'float32')", """
    with T.Kernel(1, threads=64) as b:
        f = T.alloc_fragment((4, 8, 16), 'float32')
        r = T.alloc_fragment((4, 16), 'float32')
        T.copy(A, f)
        T.reduce_max(f, r, dim=1)
        T.copy(r, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], a.max(1))


@pytest.mark.parametrize("rows, columns, threads", [(16, 64, 64), (8, 40, 32), (64, 16, 128)])
def test_softmax(rows, columns, threads):
    a = numbers((rows, columns), "float32")
    out = run(f"A: T.Tensor(({rows}, {columns}), 'float32'), B: T.Tensor(({rows}, {columns}), 'float32')", f"""
    with T.Kernel(1, threads={threads}) as b:
        f = T.alloc_fragment(({rows}, {columns}), 'float32')
        m = T.alloc_fragment(({rows},), 'float32')
        s = T.alloc_fragment(({rows},), 'float32')
        T.copy(A, f)
        T.reduce_max(f, m, dim=1)
        for i, j in T.Parallel({rows}, {columns}):
            f[i, j] = T.exp(f[i, j] - m[i])
        T.reduce_sum(f, s, dim=1)
        for i, j in T.Parallel({rows}, {columns}):
            f[i, j] = f[i, j] / s[i]
        T.copy(f, B)
    """, A=a)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(out["B"], e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("op, reverse", [("cumsum", False), ("cumsum", True), ("cummax", False)])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("threads", [64, 48])
def test_scans(op, reverse, dim, threads):
    a = numbers((8, 40), "int32")
    reverse_text = ", reverse=True" if reverse else ""
    out = run("A: T.Tensor((8, 40), 'int32'), B: T.Tensor((8, 40), 'int32')", f"""
    with T.Kernel(1, threads={threads}) as b:
        s = T.alloc_shared((8, 40), 'int32')
        T.copy(A, s)
        T.{op}(s, dim={dim}{reverse_text})
        T.copy(s, B)
    """, A=a)
    src = np.flip(a, dim) if reverse else a
    want = np.cumsum(src, dim) if op == "cumsum" else np.maximum.accumulate(src, dim)
    np.testing.assert_array_equal(out["B"], np.flip(want, dim) if reverse else want)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_histogram_by_atomics_in_shared_memory(dtype):
    a = np.random.default_rng(0).integers(0, 8, 128).astype(np.int32)
    out = run(f"A: T.Tensor((128,), 'int32'), B: T.Tensor((8,), '{dtype}')", f"""
    with T.Kernel(1, threads=64) as b:
        h = T.alloc_shared((8,), '{dtype}')
        T.clear(h)
        for i in T.Parallel(128):
            T.atomic_add(h[A[i]], 1)
        T.copy(h, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], np.bincount(a, minlength=8))


@pytest.mark.parametrize("kind, op", [("max", np.max), ("min", np.min), ("add", np.sum)])
def test_replicated_values_update_memory_once(kind, op):
    a = numbers((8, 32), "int32")
    out = run("A: T.Tensor((8, 32), 'int32'), B: T.Tensor((8,), 'int32')", f"""
    with T.Kernel(1, threads=64) as b:
        f = T.alloc_fragment((8, 32), 'int32')
        r = T.alloc_fragment((8,), 'int32')
        T.copy(A, f)
        T.reduce_{'sum' if kind == 'add' else kind}(f, r, dim=1)
        for i in T.Parallel(8):
            T.atomic_{kind}(B[i], r[i])
    """, A=a, B=np.full(8, 3, np.int32))
    base = op(a, 1)
    np.testing.assert_array_equal(out["B"], {"add": base + 3, "max": np.maximum(base, 3), "min": np.minimum(base, 3)}[kind])


def test_tiles_of_atomics_over_blocks():
    a = numbers((4, 16, 16), "float32")
    out = run("A: T.Tensor((4, 16, 16), 'float32'), B: T.Tensor((16, 16), 'float32')", """
    with T.Kernel(4, threads=32) as b:
        s = T.alloc_shared((16, 16), 'float32')
        T.copy(A[b, 0:16, 0:16], s)
        T.atomic_add(B[0:16, 0:16], s)
    """, A=a, B=np.zeros((16, 16), np.float32))
    np.testing.assert_array_equal(out["B"], a.sum(0))


def test_an_old_value_is_returned():
    out = run("B: T.Tensor((1,), 'int32'), C: T.Tensor((64,), 'int32')", """
    with T.Kernel(1, threads=32) as b:
        for i in T.Parallel(64):
            C[i] = T.atomic_add(B[0], 1, return_prev=True)
    """, B=np.zeros(1, np.int32))
    assert sorted(out["C"]) == list(range(64)) and out["B"][0] == 64


def test_reduction_in_registers_needs_no_exchange_when_a_thread_has_the_row():
    program = lowered(prim("A: T.Tensor((32, 16), 'float32'), B: T.Tensor((32,), 'float32')", """
    with T.Kernel(1, threads=128) as b:
        f = T.alloc_fragment((32, 16), 'float32')
        r = T.alloc_fragment((32,), 'float32')
        T.copy(A, f)
        T.reduce_sum(f, r, dim=1)
        T.copy(r, B)
    """))
    assert "shared" not in text_of(program)


def test_what_an_atomic_on_a_fragment_found_is_refused():
    """Atomics without a result are updates (test_fragment_updates)."""
    with pytest.raises(LoweringError, match="private|fragment"):
        run("B: T.Tensor((8,), 'float32')", """
    with T.Kernel(1, threads=32) as b:
        f = T.alloc_fragment((8,), 'float32')
        T.clear(f)
        for i in T.Parallel(8):
            B[i] = T.atomic_add(f[i], 1.0, return_prev=True)
    """)


def test_iterations_of_several_threads_that_update_one_element_in_an_order_are_refused():
    """Through shared memory they would race; each element updated by one iteration is right, wherever it lies."""
    kernel = """
    with T.Kernel(1, threads=128) as b:
        x = T.alloc_fragment((16, 280), 'int32')
        y = T.alloc_fragment((16, 10), 'int32')
        T.copy(A, x)
        T.clear(y)
        for r, c in T.Parallel(16, 280):
            y[r, c // 28] = y[r, c // 28] * 3 + x[r, c]
        T.copy(y, B)
    """
    with pytest.raises(LoweringError, match="Several iterations of this loop update one element of the fragment y"):
        lowered(prim("A: T.Tensor((16, 280), 'int32'), B: T.Tensor((16, 10), 'int32')", kernel))
    a = numbers((16, 32), "int32")
    out = run("A: T.Tensor((16, 32), 'int32'), B: T.Tensor((32, 16), 'int32')", """
    with T.Kernel(1, threads=128) as b:
        x = T.alloc_fragment((16, 32), 'int32')
        y = T.alloc_fragment((32, 16), 'int32')
        T.copy(A, x)
        T.fill(y, 3)
        for r, c in T.Parallel(16, 32):
            y[c, r] += x[r, c]
        T.copy(y, B)
    """, A=a)
    np.testing.assert_array_equal(out["B"], a.T + 3)


@pytest.mark.parametrize("target, dtype, width", [("sm_90a", "float32", 2), ("sm_90a", "float16", 2), ("sm_90a", "bfloat16", 2), ("sm_80", "float16", 2), ("sm_80", "float32", 1)])
def test_neighbours_are_added_with_one_instruction(target, dtype, width):
    """What two columns of an accumulator, which a thread holds, are added to lies side by side."""
    a, b = numbers((32, 16), "float16"), numbers((16, 16), "float16", 1)
    program = lowered(prim(f"A: T.Tensor((32, 16), 'float16'), B: T.Tensor((16, 16), 'float16'), C: T.Tensor((40, 24), '{dtype}')", """
    with T.Kernel(2, threads=32) as bx:
        a = T.alloc_shared((32, 16), 'float16')
        b = T.alloc_shared((16, 16), 'float16')
        c = T.alloc_fragment((32, 16), 'float32')
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        for i, j in T.Parallel(32, 16):
            T.atomic_add(C[i + 8, j + bx * 8], c[i, j])
    """), target)
    assert any(n == f"tile_atomic_add_{dtype}x2" for n in device_functions(program)) == (width == 2)
    start = numbers((40, 24), dtype, 5)
    out = execute(program, A=a, B=b, C=start)["C"]
    product, wanted = a.astype(np.float32) @ b.astype(np.float32), start.astype(np.float32).copy()
    for x in range(2):
        wanted[8:, 8 * x:8 * x + 16] += product
    np.testing.assert_allclose(out.astype(np.float32), wanted, rtol=1e-2, atol=0.1)


def test_elements_of_odd_places_are_added_one_by_one():
    program = lowered(prim("C: T.Tensor((40, 25), 'float32')", """
    with T.Kernel(1, threads=32) as bx:
        c = T.alloc_fragment((32, 16), 'float32')
        T.fill(c, 1.0)
        for i, j in T.Parallel(32, 16):
            T.atomic_add(C[i, j], c[i, j])
    """), "sm_90a")
    assert "tile_atomic_add_float32" in device_functions(program) and not any("x2" in n or "x4" in n for n in device_functions(program))
    assert execute(program, C=np.zeros((40, 25), np.float32))["C"].sum() == 512
