"""Small kinds that were refused or wrong: NaN in reductions, infinity of an 8-bit float, absolute values of unsigned numbers, tiles of atomics of one value."""
from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from emit_support import for_target, prim  # noqa: E402
from three_ways import three_ways  # noqa: E402


@pytest.mark.parametrize("kind", ["max", "min", "absmax"])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nan_is_the_result_where_it_is_asked_for(kind, clear, wanted, dtype):
    a = torch.arange(64).to(getattr(torch, dtype))
    a[7] = math.nan
    b = torch.full((1,), 3.0, dtype=a.dtype)
    three_ways(f"A: T.Tensor((64,), '{dtype}'), B: T.Tensor((1,), '{dtype}')", f"""
    with T.Kernel(1, threads=32) as _:
        f = T.alloc_fragment((64,), '{dtype}')
        r = T.alloc_fragment((1,), '{dtype}')
        T.copy(A, f)
        T.copy(B, r)
        T.reduce_{kind}(f, r, clear={clear}, nan_propagate={wanted})
        T.copy(r, B)
    """, a, b)
    expected = {"max": 63.0, "absmax": 63.0, "min": 0.0}[kind]
    assert math.isnan(b[0]) if wanted else b[0] == expected


def test_nan_from_another_warp():
    a = torch.arange(256.0).half().reshape(2, 128)
    a[1, 100] = math.nan
    b = torch.zeros(2, dtype=torch.float16)
    three_ways("A: T.Tensor((2, 128), 'float16'), B: T.Tensor((2,), 'float16')", """
    with T.Kernel(1, threads=128) as _:
        f = T.alloc_fragment((2, 128), 'float16')
        r = T.alloc_fragment((2,), 'float16')
        T.copy(A, f)
        T.reduce_max(f, r, dim=1, nan_propagate=True)
        T.copy(r, B)
    """, a, b)
    assert b[0] == 127 and math.isnan(b[1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_infinity_is_infinite(dtype):
    a, b = (torch.zeros(32, dtype=getattr(torch, dtype)) for _ in range(2))
    signature = f"A: T.Tensor((32,), '{dtype}'), B: T.Tensor((32,), '{dtype}')"
    body = f"""
    with T.Kernel(1, threads=32) as _:
        T.fill(A, T.infinity('{dtype}'))
        for i in T.Parallel(32):
            B[i] = A[i]
    """
    three_ways(signature, body, a, b, threads=dtype != "float8_e5m2")
    assert bool((a.float() == math.inf).all()) and bool((b.float() == math.inf).all())


def test_infinity_of_an_8_bit_float_is_bits_in_cuda():
    made = for_target(prim("A: T.Tensor((32,), 'float8_e5m2')", """
    with T.Kernel(1, threads=32) as _:
        T.fill(A, T.infinity('float8_e5m2'))
    """), "sm_90a")
    assert "0x7c" in made.text("cuda")
    made.cubin()


@pytest.mark.parametrize("kind", ["absmax", "abssum"])
@pytest.mark.parametrize("dtype", ["uint32", "uint64", "uint8", "int64"])
def test_absolute_values_of_unsigned_numbers(kind, dtype):
    made = for_target(prim(f"A: T.Tensor((64,), '{dtype}'), B: T.Tensor((1,), '{dtype}')", f"""
    with T.Kernel(1, threads=32) as _:
        f = T.alloc_fragment((64,), '{dtype}')
        r = T.alloc_fragment((1,), '{dtype}')
        T.copy(A, f)
        T.reduce_{kind}(f, r)
        T.copy(r, B)
    """), "sm_90a")
    made.cubin()


@pytest.mark.parametrize("kind, after", [("add", 3.5), ("max", 2.0), ("min", 1.5)])
def test_one_value_for_every_element_of_a_tile(kind, after):
    a = torch.full((64, 64), 2.0)
    three_ways("A: T.Tensor((64, 64), 'float32')", f"""
    with T.Kernel(2, 2, threads=32) as (bx, by):
        T.atomic_{kind}(A[bx * 32: bx * 32 + 32, by * 32: by * 32 + 32], 1.5)
    """, a)
    assert bool((a == after).all())


def test_a_tile_of_one_element():
    a, b = torch.full((1,), 5.0), torch.full((1,), 9.0)
    three_ways("A: T.Tensor((1,), 'float32'), B: T.Tensor((1,), 'float32')", """
    with T.Kernel(1) as _:
        held = T.alloc_local([1], 'float32')
        T.copy(A, held)
        T.clear(B)
        T.atomic_add(B, held)
        T.atomic_add(B, 1)
    """, a, b)
    assert b[0] == 6


@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "float16"])
def test_products_over_threads(dtype):
    import numpy as np
    from transform_support import run

    values = np.array([1, 2, -3, 1, 2, 1, 1, 2])
    out = run(f"A: T.Tensor((8,), '{dtype}'), B: T.Tensor((1,), '{dtype}')", f"""
    with T.Kernel(1, threads=(8,)):
        tk = T.get_thread_binding(0)
        v = T.alloc_local((1,), '{dtype}')
        r = T.alloc_local((1,), '{dtype}')
        v[0] = A[tk]
        with T.attr(T.comm_reducer(lambda x, y: x * y, [T.cast(1, '{dtype}')]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), v[0], True, r[0], tk, dtype="handle"))
        B[0] = r[0]
    """, A=values.astype(dtype))
    assert out["B"][0] == -24


@pytest.mark.parametrize("generator", ["curandStateMRG32k3a_t", "curandStatePhilox4_32_10_t", "curandStateXORWOW_t"])
def test_random_numbers_in_cuda(generator):
    """The text: cuRAND's headers are not on every machine."""
    made = for_target(prim("A: T.Tensor((1024,), 'uint32'), B: T.Tensor((1024,), 'float64')", f"""
    with T.Kernel(8, threads=32) as bx:
        T.rng_init(42, off=bx, generator="{generator}")
        for i in T.Parallel(128):
            A[bx * 128 + i] = T.rng_rand()
            B[bx * 128 + i] = T.rng_rand_float(bit=64, dist="normal")
    """), "sm_90a")
    text = made.text("cuda")
    assert f"{generator} rng_state;" in text and "curand_init(42ULL" in text and "curand_normal_double(&rng_state)" in text
    assert "#include <curand_kernel.h>" in text


def test_a_generator_must_be_started():
    from tilec.transform.errors import LoweringError

    with pytest.raises(LoweringError, match="T.rng_init"):
        for_target(prim("A: T.Tensor((32,), 'uint32')", """
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(32):
            A[i] = T.rng_rand()
    """), "sm_90a").text("cuda")


@pytest.mark.parametrize("view, dim, result", [((8, 16), 1, (8,)), ((8, 16), 0, (16,)), ((1, 1, 8, 16), 2, (1, 1, 16))])
def test_a_reduction_of_a_view_names_a_dimension_of_the_view(view, dim, result):
    a, b = torch.randint(-8, 8, (1, 8, 16)).float(), torch.zeros(*result)
    three_ways(f"A: T.Tensor((1, 8, 16), 'float32'), B: T.Tensor({result}, 'float32')", f"""
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment((1, 8, 16), 'float32')
        r = T.alloc_fragment({result}, 'float32')
        T.copy(A, f)
        v = T.reshape(f, {view})
        T.reduce_sum(v, r, dim={dim})
        T.copy(r, B)
    """, a, b)
    assert torch.equal(b, a.reshape(view).sum(dim))


def test_a_scan_of_a_view():
    a, b = torch.randint(-8, 8, (64,)).float(), torch.zeros(64)
    three_ways("A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), 'float32')
        T.copy(A, s)
        T.cumsum(T.view(s, (1, 64)), dim=1)
        T.copy(s, B)
    """, a, b)
    assert torch.equal(b, a.cumsum(0))


@pytest.mark.parametrize("outside", [True, False])
def test_a_tensor_viewed_as_another_type(outside):
    where, inside = ("    v = T.view(A, (8, 32), dtype='int16')", "") if outside else ("", "        v = T.view(A, (8, 32), dtype='int16')")
    made = prim("A: T.Tensor((128,), 'int32'), B: T.Tensor((8, 32), 'int16')", f"""
{where}
    with T.Kernel(1, threads=32) as _:
{inside}
        T.copy(v, B)
    """)
    artifact = for_target(made, "sm_90a")
    assert "reinterpret_cast<const short*>(A)" in artifact.text("cuda")
    artifact.cubin()


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("reverse", [True, False])
def test_a_scan_of_a_slab(dim, reverse):
    a, b = torch.randint(-8, 8, (2, 8, 16)).float(), torch.zeros(8, 16)
    three_ways("A: T.Tensor((2, 8, 16), 'float32'), B: T.Tensor((8, 16), 'float32')", f"""
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((2, 8, 16), 'float32')
        T.copy(A, s)
        T.cumsum(s[1, 0:8, 0:16], s[1, 0:8, 0:16], dim={dim}, reverse={reverse})
        T.copy(s[1, 0:8, 0:16], B)
    """, a, b)
    kept = a[1].flip(dim - 1) if reverse else a[1]
    expected = kept.cumsum(dim - 1)
    assert torch.equal(b, expected.flip(dim - 1) if reverse else expected)


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_dot_products_of_bytes(scope):
    a, b, c = (torch.randint(-128, 128, (32, 8), dtype=torch.int8) for _ in range(2)), None, torch.zeros(32, dtype=torch.int32)
    a, b = a
    held = "T.alloc_local((8,), 'int8')" if scope == "local" else "T.alloc_shared((32, 8), 'int8')"
    place = "" if scope == "local" else "t, "
    three_ways("A: T.Tensor((32, 8), 'int8'), B: T.Tensor((32, 8), 'int8'), C: T.Tensor((32,), 'int32')", f"""
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        x = {held}
        y = {held}
        total = T.alloc_local((1,), 'int32')
        total[0] = 0
        for k in T.serial(8):
            x[{place}k] = A[t, k]
            y[{place}k] = B[t, k]
        for k in T.serial(2):
            T.dp4a(x[{place}k * 4], y[{place}k * 4], total[0])
        C[t] = total[0]
    """, a, b, c, cpu=scope == "local")
    assert torch.equal(c, (a.int() * b.int()).sum(1).int())


def test_blocks_that_wait_for_each_other():
    made = for_target(prim("A: T.Tensor((1024,), 'float32')", """
    with T.Kernel(8, threads=128) as bx:
        for i in T.Parallel(128):
            A[bx * 128 + i] = bx
        T.sync_grid()
        for i in T.Parallel(128):
            A[bx * 128 + i] = A[1023 - bx * 128 - i] + T.float32(1)
    """), "sm_90a")
    assert made.cuda().kernels[0].cooperative and "cooperative_groups::this_grid().sync()" in made.text("cuda")
    made.cubin()


@pytest.mark.parametrize("predicate", ["", ", t < 16"])
def test_asynchronous_copies_by_hand(predicate):
    a, b = torch.arange(256).to(torch.uint8), torch.zeros(256, dtype=torch.uint8)
    three_ways("A: T.Tensor((512,), 'uint8'), B: T.Tensor((512,), 'uint8')", f"""
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        s = T.alloc_shared((512,), 'uint8')
        T.ptx_cp_async(T.access_ptr(s[t * 16], "w", 16), T.access_ptr(A[t * 16], "r", 16), 16{predicate})
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        for i in T.serial(16):
            B[t * 16 + i] = s[511 - t * 16 - i]
    """, a := torch.cat([a, a]), b := torch.cat([b, b]), cpu=False, interpreter=False)
    kept = a.clone()
    if predicate:
        kept[256:] = 0
    assert torch.equal(b, kept.flip(0))


@pytest.mark.parametrize("dtype, count, each", [("float16", 4, 1), ("float32", 2, 2), ("uint8", 16, 1)])
def test_a_vectorized_loop_of_asynchronous_copies_is_one(dtype, count, each):
    kind = getattr(torch, dtype)
    a, b = torch.arange(512).to(kind), torch.zeros(512, dtype=kind)
    step = count * each
    three_ways(f"A: T.Tensor((512,), '{dtype}'), B: T.Tensor((512,), '{dtype}')", f"""
    with T.Kernel(1, threads=32):
        t = T.get_thread_binding()
        s = T.alloc_shared((512,), '{dtype}')
        for i in T.vectorized({count}):
            T.ptx_cp_async(T.access_ptr(s[t * {step} + i * {each}], "w", {each}), T.access_ptr(A[t * {step} + i * {each}], "r", {each}), {each})
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        for i in T.serial({step}):
            B[t * {step} + i] = s[t * {step} + i]
    """, a, b, cpu=False, interpreter=False)
    assert torch.equal(b[:32 * step], a[:32 * step])


def test_a_safe_value_inside_an_inner_block_is_refused():
    """It holds in that block only (TileLang); nothing may read another value instead."""
    with pytest.raises(Exception, match="annotate_safe_value inside T.sblock"):
        for_target(prim("A: T.Tensor((60,), 'int32'), B: T.Tensor((64,), 'int32')", """
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((64,), 'int32')
        with T.sblock("inner"):
            T.annotate_safe_value({A: -9})
            T.copy(A[0:64], s)
        T.copy(s, B)
    """), "sm_90a").text("cuda")


def test_a_loop_whose_iterations_wait_for_the_grid():
    made = for_target(prim("A: T.Tensor((1024,), 'float32')", """
    with T.Kernel(16, threads=128) as bx:
        held = T.alloc_fragment((64,), 'float32')
        for i in T.Parallel(64):
            held[i] = A[1023 - bx * 64 - i]
            T.sync_grid()
            A[bx * 64 + i] = A[bx * 64 + i] + held[i]
    """), "sm_90a")
    assert made.text("cuda").count("tile_sync_grid();") == 1
    made.cubin()


@pytest.mark.parametrize("form", ["A[0], A[1] = A[1], A[0]", "x, y = y, x"])
def test_what_is_exchanged_is_read_before_it_is_written(form):
    a = torch.tensor([1.0, 2.0])
    three_ways("A: T.Tensor((2,), 'float32')", f"""
    with T.Kernel(1, threads=1) as _:
        x = T.alloc_var('float32', A[0])
        y = T.alloc_var('float32', A[1])
        {form}
        {"A[0] = x" if form[0] == "x" else "x = 0"}
        {"A[1] = y" if form[0] == "x" else "y = 0"}
    """, a)
    assert a.tolist() == [2.0, 1.0]


def test_variables_start_at_zero():
    a = torch.full((1,), 7, dtype=torch.int32)
    three_ways("A: T.Tensor((1,), 'int32')", """
    with T.Kernel(1, threads=1) as _:
        i = T.alloc_var('int32', 0)
        total = T.alloc_var('int32')
        while i < 10:
            total += i
            i += 1
        A[0] = total
    """, a)
    assert a[0] == 45


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize(("threads", "refused"), [("-1", True), ("0", True), ("(32, -2)", True), ("2048", False)])
def test_a_block_has_threads_on_every_target(target, threads, refused):
    """More than CUDA allows is no fault of a kernel for the CPU."""
    from tilec.check.checker import check_program
    from tilec.target.chips import find

    made = prim("A: T.Tensor((32,), 'float32')", f"with T.Kernel(1, threads={threads}) as bx:\n    T.clear(A)")
    found = [d for d in check_program(made, find(target)) if d.name == "threads-range"]
    assert bool(found) == (refused or target != "cpu")
    if refused:
        assert "a block has at least one thread" in found[0].message and found[0].span.line == 5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_halves_are_rounded_to_even_unless_told_otherwise(dtype):
    a = (torch.arange(-32, 32) / 4).to(getattr(torch, dtype))
    b, c, d = (torch.zeros_like(a) for _ in range(3))
    names = ", ".join(f"{n}: T.Tensor((64,), '{dtype}')" for n in "ABCD")
    three_ways(names, """
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(64):
            B[i] = T.round(A[i])
            C[i] = T.round(A[i], "ties-away-from-zero")
            D[i] = T.round(A[i], rounding_mode="ties-to-even")
    """, a, b, c, d, threads=False)
    assert torch.equal(b, a.round()) and torch.equal(d, a.round())
    assert torch.equal(c, (a.float().sign() * (a.float().abs() + 0.5).floor()).to(a.dtype))


def test_rounding_in_cuda_is_rounding_in_tilelang():
    text = for_target(prim("A: T.Tensor((64,), 'float32')", """
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(64):
            A[i] = T.round(A[i])
    """), "sm_80").text("cuda")
    assert "nearbyintf(" in text and "roundf(" not in text


def test_what_the_first_operand_decides_is_not_computed():
    """A division by zero is undefined in LLVM, whose vectors compute both operands of an and."""
    a = torch.arange(-32, 32, dtype=torch.int32)
    d = torch.arange(64, dtype=torch.int32) % 5
    both, either, nested = (torch.zeros(64, dtype=torch.int32) for _ in range(3))
    names = ", ".join(f"{n}: T.Tensor((64,), 'int32')" for n in "ADXYZ")
    three_ways(names, """
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(64):
            X[i] = T.if_then_else(D[i] != 0 and A[i] % D[i] == 0, 1, 0)
            Y[i] = T.if_then_else(D[i] == 0 or A[i] // D[i] > 3, 1, 0)
            if D[i] != 0 and (A[i] % D[i] == 1 or A[i] // D[i] < 0):
                Z[i] = 1
    """, a, d, both, either, nested)
    safe = d.clamp(min=1)
    quotient, rest = torch.div(a, safe, rounding_mode="floor"), a % safe
    assert torch.equal(both, ((d != 0) & (rest == 0)).int())
    assert torch.equal(either, ((d == 0) | (quotient > 3)).int())
    assert torch.equal(nested, ((d != 0) & ((rest == 1) | (quotient < 0))).int())


def test_bits_of_narrow_floats_and_counts_of_bits():
    a = torch.linspace(-4, 4, 64).half()
    n = (torch.arange(64, dtype=torch.int32) - 9) * 12345
    b, c, d, e = torch.zeros(64, dtype=torch.int16), torch.zeros(64, dtype=torch.bfloat16), torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    three_ways("A: T.Tensor((64,), 'float16'), N: T.Tensor((64,), 'int32'), B: T.Tensor((64,), 'int16'), C: T.Tensor((64,), 'bfloat16'), "
               "D: T.Tensor((64,), 'int32'), E: T.Tensor((64,), 'int32')", """
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(64):
            B[i] = T.reinterpret(A[i], "int16")
            C[i] = T.reinterpret(A[i], "bfloat16")
            D[i] = T.popcount(N[i])
            E[i] = T.clz(N[i])
    """, a, n, b, c, d, e, cpu=False, threads=False)
    assert torch.equal(b, a.view(torch.int16)) and torch.equal(c, a.view(torch.bfloat16))
    assert d.tolist() == [bin(v & 0xFFFFFFFF).count("1") for v in n.tolist()]
    assert e.tolist() == [32 - (v & 0xFFFFFFFF).bit_length() for v in n.tolist()]


def test_one_element_is_filled():
    b = torch.zeros(1, dtype=torch.int32)
    three_ways("B: T.Tensor((1,), 'int32')", """
    with T.Kernel(1, threads=32) as _:
        m = T.alloc_fragment((1,), 'int32')
        s = T.alloc_shared((1,), 'int32')
        T.fill(m, -7)
        T.fill(s, 3)
        B[0] = m[0] * 10 + s[0]
    """, b)
    assert b.tolist() == [-67]


def test_match_takes_the_case_that_python_takes():
    b = torch.zeros(16, dtype=torch.int32)
    three_ways("B: T.Tensor((16,), 'int32')", """
    with T.Kernel(1, threads=1) as _:
        for k, v in enumerate([1, "a", (1, 2), (3, 4, 5), None, 7, True, 2.5, "z"]):
            match v:
                case 1 if k == 0:
                    B[k] = 11
                case "a" | "b":
                    B[k] = 22
                case (p, q):
                    B[k] = p * 10 + q
                case [3, *r]:
                    B[k] = r[1]
                case None:
                    B[k] = 55
                case int() as z:
                    B[k] = z * 100
                case float(z) if z > 2:
                    B[k] = 25
                case _:
                    B[k] = 77
        match 3:
            case 1 | 2:
                B[15] = 9
    """, b)
    assert b.tolist() == [11, 22, 12, 5, 55, 700, 100, 25, 77, 0, 0, 0, 0, 0, 0, 0]


def test_match_of_a_device_value_is_told():
    with pytest.raises(AssertionError, match="match compares values of Python"):
        prim("A: T.Tensor((16,), 'int32')", """
        with T.Kernel(1, threads=1) as _:
            match A[3]:
                case 3:
                    A[0] = 1
                case _:
                    A[0] = 2
        """)


def test_truth_values_are_compared():
    a, b = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    three_ways("A: T.Tensor((64,), 'int32'), B: T.Tensor((64,), 'int32')", """
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(63):
            low = A[i] > 5
            B[i] = T.if_then_else(low == (A[i + 1] < 20), 1, 0) + T.if_then_else(low != (A[i] > 40), 10, 0)
    """, a, b)
    i = torch.arange(63)
    assert torch.equal(b[:63], ((i > 5) == (i + 1 < 20)).int() + 10 * ((i > 5) != (i > 40)).int())
