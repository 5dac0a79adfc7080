"""Tile programs compiled with LLVM compute what the same operation in torch computes."""
from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

from emit_support import on_cpu, prim, program  # noqa: E402
from hand_programs import gemm as hand_gemm  # noqa: E402


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def poisoned(*shape, dtype=torch.float32):
    """An output nobody wrote: wrong wherever the kernel forgets an element."""
    return torch.full(shape, 77, dtype=torch.float32).to(dtype)


def one_block(signature: str, body: str, threads: int = 128):
    inner = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return on_cpu(prim(signature, f"with T.Kernel(1, threads={threads}) as bx:\n{inner}\n"))


# -- matrix products -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gemm_by_hand(dtype):
    kind = getattr(torch, dtype)
    a, b, c = normal(128, 96, dtype=kind), normal(96, 192, dtype=kind, seed=1), poisoned(128, 192, dtype=kind)
    on_cpu(hand_gemm(128, 192, 96, 64, 64, 32, dtype))(a, b, c)
    torch.testing.assert_close(c.float(), (a.float() @ b.float()).to(kind).float(), rtol=1e-2, atol=1e-2)


def test_gemm_whose_tiles_reach_over_the_edges():
    a, b, c = normal(100, 70), normal(70, 90, seed=1), poisoned(100, 90)
    made = hand_gemm(100, 90, 70, 64, 64, 32, "float32")
    on_cpu(made)(a, b, c)
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_gemm_transposed_operands_and_integers(ta, tb):
    left, right = ("(32, 64)" if ta else "(64, 32)"), ("(48, 32)" if tb else "(32, 48)")
    f = one_block(f'A: T.Tensor({left}, "int8"), B: T.Tensor({right}, "int8"), C: T.Tensor((64, 48), "int32")', f"""
        As = T.alloc_shared({left}, "int8")
        Bs = T.alloc_shared({right}, "int8")
        acc = T.alloc_fragment((64, 48), "int32")
        T.copy(A, As)
        T.copy(B, Bs)
        T.gemm(As, Bs, acc, transpose_A={ta}, transpose_B={tb}, clear_accum=True)
        T.copy(acc, C)
    """.replace("        ", ""))
    g = torch.Generator().manual_seed(3)
    a = torch.randint(-128, 128, eval(left), dtype=torch.int8, generator=g)
    b = torch.randint(-128, 128, eval(right), dtype=torch.int8, generator=g)
    c = torch.full((64, 48), 7, dtype=torch.int32)
    f(a, b, c)
    assert torch.equal(c, (a.T if ta else a).int() @ (b.T if tb else b).int())


# -- copies, fills, parallel loops ------------------------------------------------------------------------------------------------
def test_elementwise_with_a_dynamic_extent():
    f = on_cpu(program("""
        N = T.dynamic("n")
        @T.prim_func
        def add(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
                for i in T.Parallel(128):
                    C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
    """))
    for n in (1, 127, 128, 1000):
        a, b, c = normal(n), normal(n, seed=1), poisoned(n)
        f(a, b, c)
        assert torch.equal(c, a + b)


def test_copy_between_ranks_and_types():
    f = one_block('A: T.Tensor((4, 16, 32), "float32"), B: T.Tensor((16, 32), "float16")', """
tile = T.alloc_fragment((16, 32), "float32")
T.copy(A[2, 0:16, 0:32], tile)
T.copy(tile, B)
""")
    a, b = normal(4, 16, 32), poisoned(16, 32, dtype=torch.float16)
    f(a, b)
    assert torch.equal(b, a[2].half())


def test_fill_clear_and_transpose():
    f = one_block('A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 16), "float32"), C: T.Tensor((8, 8), "float32")', """
s = T.alloc_shared((16, 32), "float32")
t = T.alloc_shared((32, 16), "float32")
z = T.alloc_fragment((8, 8), "float32")
T.copy(A, s)
T.transpose(s, t)
T.copy(t, B)
T.clear(z)
T.fill(z[0:4, 0:8], 2.5)
T.copy(z, C)
""")
    a, b, c = normal(16, 32), poisoned(32, 16), poisoned(8, 8)
    f(a, b, c)
    assert torch.equal(b, a.T)
    assert torch.equal(c, torch.cat([torch.full((4, 8), 2.5), torch.zeros(4, 8)]))


# -- reductions and scans ------------------------------------------------------------------------------------------------------------
REDUCTIONS = {
    "reduce_sum": lambda x, d: x.sum(d), "reduce_max": lambda x, d: x.max(d).values, "reduce_min": lambda x, d: x.min(d).values,
    "reduce_abssum": lambda x, d: x.abs().sum(d), "reduce_absmax": lambda x, d: x.abs().max(d).values,
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, dim):
    kept = 24 if dim == 0 else 16
    f = one_block(f'A: T.Tensor((16, 24), "float32"), B: T.Tensor(({kept},), "float32")', f"""
x = T.alloc_fragment((16, 24), "float32")
r = T.alloc_fragment(({kept},), "float32")
T.copy(A, x)
T.{name}(x, r, dim={dim})
T.copy(r, B)
""")
    a, b = normal(16, 24), poisoned(kept)
    f(a, b)
    torch.testing.assert_close(b, REDUCTIONS[name](a, dim), rtol=1e-5, atol=1e-5)


def test_reduction_that_keeps_the_old_value():
    f = one_block('A: T.Tensor((8, 16), "float32"), B: T.Tensor((8,), "float32")', """
x = T.alloc_fragment((8, 16), "float32")
r = T.alloc_fragment((8,), "float32")
T.copy(A, x)
T.fill(r, 3.0)
T.reduce_sum(x, r, dim=1, clear=False)
T.copy(r, B)
""")
    a, b = normal(8, 16), poisoned(8)
    f(a, b)
    torch.testing.assert_close(b, a.sum(1) + 3.0, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_cumsum(dim, reverse):
    f = one_block('A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")', f"""
s = T.alloc_shared((8, 16), "float32")
T.copy(A, s)
T.cumsum(s, dim={dim}, reverse={reverse})
T.copy(s, B)
""")
    a, b = normal(8, 16), poisoned(8, 16)
    f(a, b)
    expected = a.flip(dim).cumsum(dim).flip(dim) if reverse else a.cumsum(dim)
    torch.testing.assert_close(b, expected, rtol=1e-5, atol=1e-5)


# -- atomics ------------------------------------------------------------------------------------------------------------------------------
def test_atomics_from_many_blocks():
    f = on_cpu(prim('A: T.Tensor((64, 32), "float32"), B: T.Tensor((32,), "float32"), C: T.Tensor((1,), "int32")', """
        with T.Kernel(64, threads=32) as bx:
            row = T.alloc_fragment((32,), "float32")
            T.copy(A[bx, 0:32], row)
            T.atomic_add(B, row)
            for i in T.Parallel(32):
                T.atomic_max(C[0], bx * 32 + i)
    """))
    a, b, c = normal(64, 32), torch.zeros(32), torch.zeros(1, dtype=torch.int32)
    f(a, b, c)
    torch.testing.assert_close(b, a.sum(0), rtol=1e-5, atol=1e-5)
    assert c.item() == 64 * 32 - 1


# -- scalars -------------------------------------------------------------------------------------------------------------------------------
FUNCTIONS = {
    "T.exp(x)": torch.exp, "T.exp2(x)": torch.exp2, "T.exp10(x)": lambda x: 10.0**x, "T.log(T.abs(x))": lambda x: x.abs().log(),
    "T.log2(T.abs(x))": lambda x: x.abs().log2(), "T.log10(T.abs(x))": lambda x: x.abs().log10(), "T.log1p(T.abs(x))": lambda x: x.abs().log1p(),
    "T.sqrt(T.abs(x))": lambda x: x.abs().sqrt(), "T.rsqrt(T.abs(x))": lambda x: x.abs().rsqrt(), "T.tanh(x)": torch.tanh, "T.sin(x)": torch.sin,
    "T.cos(x)": torch.cos, "T.tan(x)": torch.tan, "T.sinh(x)": torch.sinh, "T.cosh(x)": torch.cosh, "T.atan(x)": torch.atan,
    "T.asinh(x)": torch.asinh, "T.erf(x)": torch.erf, "T.sigmoid(x)": torch.sigmoid, "T.floor(x)": torch.floor, "T.ceil(x)": torch.ceil,
    "T.trunc(x)": torch.trunc, "T.round(x)": torch.round, "T.nearbyint(x)": torch.round, "T.pow(T.abs(x), 1.5)": lambda x: x.abs()**1.5,
    "T.max(x, 0.5)": lambda x: x.clamp(min=0.5), "T.min(x, 0.5)": lambda x: x.clamp(max=0.5), "-x": lambda x: -x, "x / 3.0": lambda x: x / 3.0,
    "T.if_then_else(x > 0, x, x * 0.5)": lambda x: torch.where(x > 0, x, x * 0.5), "T.__exp(x)": torch.exp, "T.atan2(x, 2.0)": lambda x: torch.atan2(x, torch.tensor(2.0)),
    "T.fmod(x, 0.7)": lambda x: torch.fmod(x, 0.7), "T.clamp(x, -1.0, 1.0)": lambda x: x.clamp(-1, 1), "T.asin(T.sin(x))": lambda x: torch.asin(torch.sin(x)),
    "T.acos(T.sin(x))": lambda x: torch.acos(torch.sin(x)), "T.copysign(x, -1.0)": lambda x: -x.abs(), "T.hypot(x, 2.0)": lambda x: (x * x + 4).sqrt(),
    "T.acosh(T.abs(x) + 1.0)": lambda x: torch.acosh(x.abs() + 1), "T.atanh(T.sin(x) * 0.9)": lambda x: torch.atanh(torch.sin(x) * 0.9),
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_scalar_functions(text):
    f = one_block('A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")', f"""
for i in T.Parallel(256):
    x = A[i]
    B[i] = {text}
""")
    a, b = normal(256) * 2, poisoned(256)
    a[:4] = torch.tensor([0.5, -0.5, 1.5, 2.5])
    f(a, b)
    torch.testing.assert_close(b, FUNCTIONS[text](a), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("text", ["T.exp(x)", "x + x", "T.max(x, y)", "x * y - x", "T.tanh(x)", "T.sqrt(T.abs(x))", "T.sigmoid(x)", "T.erf(x)"])
def test_scalar_functions_of_other_floats(text, dtype):
    kind = getattr(torch, dtype)
    f = one_block(f'A: T.Tensor((64,), "{dtype}"), B: T.Tensor((64,), "{dtype}"), C: T.Tensor((64,), "{dtype}")', f"""
for i in T.Parallel(64):
    x = A[i]
    y = B[i]
    C[i] = {text}
""")
    a, b, c = normal(64, dtype=kind), normal(64, dtype=kind, seed=1), poisoned(64, dtype=kind)
    f(a, b, c)
    x, y = a.double(), b.double()
    expected = {"T.exp(x)": x.exp(), "x + x": x + x, "T.max(x, y)": torch.maximum(x, y), "x * y - x": x * y - x, "T.tanh(x)": x.tanh(),
                "T.sqrt(T.abs(x))": x.abs().sqrt(), "T.sigmoid(x)": x.sigmoid(), "T.erf(x)": torch.erf(x)}[text]
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-6 if "erf" in text else 1e-12}[dtype]
    torch.testing.assert_close(c.double(), expected, rtol=tolerance, atol=tolerance)


INTEGERS = {"x // y": lambda x, y: torch.div(x, y, rounding_mode="floor"), "x % y": lambda x, y: torch.remainder(x, y),
            "T.truncdiv(x, y)": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "T.truncmod(x, y)": lambda x, y: torch.fmod(x, y),
            "x & y": lambda x, y: x & y, "x | y": lambda x, y: x | y, "x ^ y": lambda x, y: x ^ y, "x << 2": lambda x, y: x << 2,
            "x >> 2": lambda x, y: x >> 2, "T.max(x, y)": torch.maximum, "~x": lambda x, y: ~x, "x * y - 3": lambda x, y: x * y - 3,
            "T.abs(x)": lambda x, y: x.abs(), "T.cast(x > y, 'int32')": lambda x, y: (x > y).int()}


@pytest.mark.parametrize("text", INTEGERS)
def test_integer_arithmetic(text):
    f = one_block('A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")', f"""
for i in T.Parallel(64):
    x = A[i]
    y = B[i]
    C[i] = {text}
""")
    g = torch.Generator().manual_seed(1)
    a = torch.randint(-1000, 1000, (64,), dtype=torch.int32, generator=g)
    b = torch.randint(1, 50, (64,), dtype=torch.int32, generator=g) * torch.where(torch.arange(64) % 2 == 0, 1, -1).int()
    c = torch.zeros(64, dtype=torch.int32)
    f(a, b, c)
    assert torch.equal(c, INTEGERS[text](a, b).int())


CAST_TYPES = ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("target", CAST_TYPES)
@pytest.mark.parametrize("source", CAST_TYPES)
def test_casts(source, target):
    f = one_block(f'A: T.Tensor((256,), "{source}"), B: T.Tensor((256,), "{target}")', f"""
for i in T.Parallel(256):
    B[i] = T.cast(A[i], "{target}")
""")
    kind, wanted = getattr(torch, source), getattr(torch, target)
    if source == "bool":
        a = torch.arange(256) % 3 == 0
    else:
        low = 0 if "uint8" in (source, target) else -100
        a = torch.linspace(low, 100, 256).to(kind)
    b = torch.zeros(256).to(wanted)
    f(a, b)
    expected = a.to(torch.float64).to(wanted) if wanted.is_floating_point and not kind.is_floating_point else a.to(wanted)
    if "float8" in target and kind == torch.float64:
        expected = a.to(torch.float32).to(wanted)
    assert torch.equal(b.double(), expected.double())


def test_rounding_of_narrow_floats():
    """Ties go to even; overflow, subnormals, infinity and NaN as torch has them."""
    values = torch.tensor([1.0 + 2**-11, 1.0 + 3 * 2**-11, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 6.1e-5, 3e-8, 1e-40, math.inf, -math.inf, math.nan, -0.0, 65519.0,
                           0.0625 * 17, 0.0625 * 19, 2**-9, 3 * 2**-11, 2**-16, 3 * 2**-18, 447.9, -448.0])
    n = len(values)
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        f = one_block(f'A: T.Tensor(({n},), "float32"), B: T.Tensor(({n},), "{dtype}"), C: T.Tensor(({n},), "float32")', f"""
for i in T.Parallel({n}):
    B[i] = T.cast(A[i], "{dtype}")
for i in T.Parallel({n}):
    C[i] = T.cast(B[i], "float32")
""")
        b, c = torch.zeros(n).to(getattr(torch, dtype)), poisoned(n)
        chosen = values if dtype in ("float16", "bfloat16") else torch.where(values.abs() < 449, values, torch.zeros(()))
        f(chosen, b, c)
        torch.testing.assert_close(c, chosen.to(getattr(torch, dtype)).float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype, largest", [("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)])
def test_eight_bit_floats_saturate(dtype, largest):
    """As CUDA's conversions do; torch makes infinities of some."""
    f = one_block(f'A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "{dtype}")', f"""
for i in T.Parallel(4):
    B[i] = T.cast(A[i], "{dtype}")
""")
    b = torch.zeros(4).to(getattr(torch, dtype))
    f(torch.tensor([1e6, -1e6, math.inf, math.nan]), b)
    assert b.float()[:3].tolist() == [largest, -largest, largest]
    assert math.isnan(b.float()[3])


def test_unsigned_arithmetic_wraps():
    f = one_block('A: T.Tensor((64,), "uint32"), B: T.Tensor((64,), "uint32"), C: T.Tensor((64,), "uint32")', """
for i in T.Parallel(64):
    x = A[i]
    y = B[i]
    C[i] = (x * T.uint32(1664525) + T.uint32(1013904223)) ^ (x - y) ^ (y - T.uint32(5)) ^ T.if_then_else(x - y < T.uint32(1000), T.uint32(1), T.uint32(7))
""")
    g = torch.Generator().manual_seed(5)
    a = torch.randint(0, 2**32, (64,), generator=g)
    b = torch.where(torch.arange(64) % 2 == 0, torch.randint(0, 2**32, (64,), generator=g), a - 10)
    b[:3] = torch.tensor([0, 1, 4])
    c = torch.zeros(64, dtype=torch.uint32)
    f(a.to(torch.uint32), b.to(torch.uint32), c)
    m = 2**32
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist()):
        assert z == ((x * 1664525 + 1013904223) % m) ^ ((x - y) % m) ^ ((y - 5) % m) ^ (1 if (x - y) % m < 1000 else 7)


def test_reinterpret():
    f = one_block('A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "int32")', """
for i in T.Parallel(64):
    B[i] = T.reinterpret(A[i], "int32")
""")
    a, b = normal(64), torch.zeros(64, dtype=torch.int32)
    f(a, b)
    assert torch.equal(b, a.view(torch.int32))


# -- control flow -----------------------------------------------------------------------------------------------------------------------------
def test_while_break_continue_and_variables():
    f = one_block('A: T.Tensor((4,), "int32")', """
n = T.alloc_var("int32")
n = 0
total = T.alloc_var("int32")
total = 0
while n < 10:
    n = n + 1
    total = total + n
A[0] = total
for i in T.serial(10):
    if i == 3:
        continue
    if i == 6:
        break
    A[1] = A[1] + i
A[2] = n
""", 32)
    a = torch.zeros(4, dtype=torch.int32)
    f(a)
    assert a.tolist() == [55, 0 + 1 + 2 + 4 + 5, 10, 0]


def test_loops_with_start_and_step():
    f = one_block('A: T.Tensor((16,), "int32")', """
for i in T.serial(2, 16, 3):
    A[i] = i
""", 32)
    a = torch.zeros(16, dtype=torch.int32)
    f(a)
    assert a.tolist() == [i if i >= 2 and (i - 2) % 3 == 0 else 0 for i in range(16)]


def test_softmax_rows():
    f = on_cpu(prim('A: T.Tensor((32, 100), "float16"), B: T.Tensor((32, 100), "float16")', """
        with T.Kernel(2, threads=128) as bx:
            x = T.alloc_fragment((16, 100), "float32")
            m = T.alloc_fragment((16,), "float32")
            s = T.alloc_fragment((16,), "float32")
            T.copy(A[bx * 16, 0], x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(16, 100):
                x[i, j] = T.exp(x[i, j] - m[i])
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(16, 100):
                x[i, j] /= s[i]
            T.copy(x, B[bx * 16, 0])
    """))
    a, b = normal(32, 100, dtype=torch.float16), poisoned(32, 100, dtype=torch.float16)
    f(a, b)
    torch.testing.assert_close(b.float(), a.float().softmax(1), rtol=1e-2, atol=1e-3)


def test_thread_indices():
    f = on_cpu(prim('A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")', """
        with T.Kernel(8, threads=64) as bx:
            tx = T.get_thread_binding(0)
            B[bx, tx] = A[bx, tx] * 2.0
    """))
    a, b = normal(8, 64), poisoned(8, 64)
    f(a, b)
    assert torch.equal(b, a * 2)


def test_scalar_parameters():
    f = one_block('A: T.Tensor((64,), "float32"), alpha: T.float32, n: T.int32', """
for i in T.Parallel(64):
    if i < n:
        A[i] = A[i] * alpha
""")
    a = normal(64)
    before = a.clone()
    f(a, 2.5, 10)
    assert torch.equal(a[:10], before[:10] * 2.5)
    assert torch.equal(a[10:], before[10:])


def test_tensor_with_strides():
    f = on_cpu(program("""
        s = T.dynamic("s")
        @T.prim_func
        def scale(A: T.StridedTensor((16, 32), (s, 1), "float32"), B: T.Tensor((16, 32), "float32")):
            with T.Kernel(1, threads=128) as bx:
                for i, j in T.Parallel(16, 32):
                    B[i, j] = A[i, j] + 1.0
    """))
    whole, b = normal(16, 50), poisoned(16, 32)
    f(whole[:, :32], b)
    assert torch.equal(b, whole[:, :32] + 1)


# -- 4-bit types -----------------------------------------------------------------------------------------------------------------
def _nibbles(bytes_: torch.Tensor) -> torch.Tensor:
    """The two elements of each byte, the low one first."""
    return torch.stack([bytes_ & 0xF, bytes_ >> 4], -1).flatten(-2)


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn"])
def test_packed_elements_are_read(dtype):
    f = one_block(f'A: T.Tensor((16, 32), "{dtype}"), B: T.Tensor((16, 32), "float32")', """
for i, j in T.Parallel(16, 32):
    B[i, j] = T.cast(A[i, j], "float32")
""")
    a, b = torch.arange(256, dtype=torch.uint8).reshape(16, 16), poisoned(16, 32)
    f(a, b)
    codes = _nibbles(a)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]) if "float" in dtype else torch.tensor([*range(8), *range(-8, 0)])
    assert torch.equal(b, values[codes.long()].float())


def test_packed_elements_are_written():
    f = one_block('A: T.Tensor((8, 32), "int32"), B: T.Tensor((8, 32), "int4")', """
for i, j in T.Parallel(8, 32):
    B[i, j] = T.cast(A[i, j], "int4")
""")
    a = (torch.arange(256, dtype=torch.int32).reshape(8, 32) * 7) % 16 - 8
    b = torch.full((8, 16), 0x5A, dtype=torch.uint8)
    f(a, b)
    assert torch.equal(_nibbles(b).int(), a & 0xF)


# -- views ---------------------------------------------------------------------------------------------------------------------
def test_a_reshape_shares_its_storage_both_ways():
    f = one_block('A: T.Tensor((6, 8), "uint8"), B: T.Tensor((48,), "uint8"), C: T.Tensor((6, 8), "uint8")', """
s = T.alloc_shared((6, 8), "uint8")
T.copy(A, s)
v = T.reshape(s, (48,))
for i in T.Parallel(48):
    v[i] = v[i] * T.uint8(3) + T.cast(i, "uint8")
T.copy(v, B)
T.copy(s, C)
""")
    a = torch.arange(48, dtype=torch.uint8).reshape(6, 8)
    b, c = torch.zeros(48, dtype=torch.uint8), torch.zeros(6, 8, dtype=torch.uint8)
    f(a, b, c)
    wanted = a.flatten() * 3 + torch.arange(48, dtype=torch.uint8)
    assert torch.equal(b, wanted)
    assert torch.equal(c, wanted.reshape(6, 8))


@pytest.mark.parametrize("dtype, bits", [("float32", "int32"), ("float16", "int16"), ("bfloat16", "int16")])
def test_a_view_of_another_type_reads_and_writes_bits(dtype, bits):
    f = one_block(f'A: T.Tensor((4, 8), "{dtype}"), B: T.Tensor((32,), "{bits}"), C: T.Tensor((4, 8), "{dtype}")', f"""
s = T.alloc_shared((4, 8), "{dtype}")
T.copy(A, s)
v = T.view(s, (32,), dtype="{bits}")
for i in T.Parallel(32):
    B[i] = v[i] >> 3
    v[i] = v[i] ^ 1
T.copy(s, C)
""")
    kind, word = getattr(torch, dtype), getattr(torch, bits)
    a = normal(4, 8, dtype=kind)
    b, c = torch.zeros(32, dtype=word), poisoned(4, 8, dtype=kind)
    f(a, b, c)
    assert torch.equal(b, a.view(word).flatten() >> 3)
    assert torch.equal(c.view(word), a.view(word) ^ 1)


def test_a_view_of_smaller_elements_reads_their_parts():
    f = one_block('A: T.Tensor((8,), "int32"), B: T.Tensor((32,), "uint8"), C: T.Tensor((8,), "int32")', """
s = T.alloc_shared((8,), "int32")
T.copy(A, s)
v = T.view(s, (32,), dtype="uint8")
T.copy(v, B)
for i in T.Parallel(8):
    v[4 * i + 1] = T.cast(i, "uint8")
T.copy(s, C)
""")
    a = torch.arange(8, dtype=torch.int32) * -70000001
    b, c = torch.zeros(32, dtype=torch.uint8), torch.zeros(8, dtype=torch.int32)
    f(a, b, c)
    wanted = a.view(torch.uint8).clone()
    assert torch.equal(b, wanted)
    wanted[1::4] = torch.arange(8)
    assert torch.equal(c, wanted.view(torch.int32))


def test_a_view_of_larger_elements_that_is_updated_in_place():
    f = one_block('A: T.Tensor((32,), "float16"), B: T.Tensor((8,), "int64"), C: T.Tensor((32,), "float16"), D: T.Tensor((32,), "bfloat16")', """
s = T.alloc_shared((32,), "float16")
w = T.view(s, (8,), dtype="int64")
v = T.view(w, (32,), dtype="bfloat16")
T.copy(A, s)
for i in T.Parallel(8):
    B[i] = w[i]
    w[i] = w[i] + 4294967297
T.copy(s, C)
T.copy(v, D)
""")
    a = normal(32, dtype=torch.float16)
    a[5] = float("nan")  # bits stay what they are
    b, c, d = torch.zeros(8, dtype=torch.int64), torch.zeros(32, dtype=torch.float16), torch.zeros(32, dtype=torch.bfloat16)
    f(a, b, c, d)
    wanted = a.view(torch.int64) + 4294967297
    assert torch.equal(b, a.view(torch.int64))
    assert torch.equal(c.view(torch.int64), wanted)
    assert torch.equal(d.view(torch.int64), wanted)


def test_a_view_of_a_tensor_in_smaller_elements_keeps_the_other_parts():
    f = one_block('A: T.Tensor((8,), "int32"), B: T.Tensor((16,), "uint8")', """
a = T.view(A, (16,), dtype="uint16")
b = T.view(B, (4,), dtype="float32")
for i in T.Parallel(8):
    a[2 * i + 1] = T.cast(i, "uint16")
for i in T.Parallel(4):
    b[i] = T.cast(i, "float32") - 1.5
""")
    a, b = torch.arange(8, dtype=torch.int32) - 70000, torch.zeros(16, dtype=torch.uint8)
    wanted = (a & 0xFFFF) | (torch.arange(8, dtype=torch.int32) << 16)
    f(a, b)
    assert torch.equal(a, wanted)
    assert torch.equal(b.view(torch.float32), torch.arange(4.0) - 1.5)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_views_between_bytes_and_packed_elements(dtype):
    f = one_block(f'A: T.Tensor((32,), "{dtype}"), B: T.Tensor((16,), "uint8"), C: T.Tensor((32,), "float32"), D: T.Tensor((16,), "uint8"), '
                  f'E: T.Tensor((16,), "uint8")', f"""
s = T.alloc_shared((32,), "{dtype}")
T.copy(A, s)
bytes_ = T.view(s, (16,), dtype="uint8")
T.copy(bytes_, B)
for i in T.Parallel(16):
    bytes_[i] = T.cast(i * 17, "uint8")
for i in T.Parallel(32):
    C[i] = T.cast(s[i], "float32")
    if i % 4 == 2:
        s[i] = s[i - 1]
T.copy(bytes_, D)
whole = T.view(A, (16,), dtype="uint8")
for i in T.Parallel(16):
    E[i] = whole[15 - i]
""")
    a = torch.arange(16, dtype=torch.uint8) * 29 + 7
    b, c, d, e = torch.zeros(16, dtype=torch.uint8), torch.zeros(32), torch.zeros(16, dtype=torch.uint8), torch.zeros(16, dtype=torch.uint8)
    f(a.view(torch.int8), b, c, d, e)
    assert torch.equal(b, a) and torch.equal(e, a.flip(0))
    values = {"int4": [*range(8), *range(-8, 0)], "uint4": [*range(16)], "float4_e2m1fn": [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]}[dtype]
    assert c.tolist() == [values[i // 2] for i in range(32)]  # the byte 17 * i is i twice
    assert d.tolist() == [i * 17 - i % 2 for i in range(16)]


# -- indices -------------------------------------------------------------------------------------------------------------------
BACKWARDS = ["(15 - i) // 2", "(40 - i % 2) // 12", "(15 - i) // 4 * 2 + i % 2", "6 + (15 - T.max(i, 3)) // 2", "(-i) // 3 + 6", "i // -2 + 8", "(15 - i) % 4",
             "(i * -3 + 50) // 7", "(20 - (i + 4)) // 5", "(i - 15) // 2 + 8"]


@pytest.mark.parametrize("index", BACKWARDS)
@pytest.mark.parametrize("loop", ["T.serial(16)", "T.Parallel(16)", "T.serial(15, -1, -1)"])
def test_an_index_that_counts_downwards_is_divided_downwards(index, loop):
    """TVM's FlattenBuffer takes (15 - i) // 2 in an index for i // -2 + 7."""
    f = one_block('A: T.Tensor((64,), "int32"), B: T.Tensor((16,), "int32"), C: T.Tensor((16,), "int32")', f"""
for i in {loop}:
    at = {index}
    B[i] = A[{index}]
    C[i] = A[at]
""")
    a = torch.arange(64, dtype=torch.int32) * 3
    b, c = torch.zeros(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    f(a, b, c)
    wanted = [3 * eval(index.replace("T.max", "max"), {"i": i}) for i in range(16)]
    assert b.tolist() == wanted and c.tolist() == wanted


def test_loops_from_a_start_that_counts_downwards():
    f = one_block('A: T.Tensor((64,), "int32"), B: T.Tensor((8, 4), "int32")', """
for i in T.serial(8):
    for j in T.serial(20 - i, 24 - i):
        B[i, j - 20 + i] = A[j // 3]
""")
    a, b = torch.arange(64, dtype=torch.int32), torch.zeros(8, 4, dtype=torch.int32)
    f(a, b)
    assert b.tolist() == [[j // 3 for j in range(20 - i, 24 - i)] for i in range(8)]


def test_packed_elements_are_read_downwards():
    f = one_block('A: T.Tensor((16,), "int4"), B: T.Tensor((16,), "int8")', """
for i in T.Parallel(16):
    B[i] = T.cast(A[15 - i], "int8")
""")
    a, b = torch.tensor([0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE], dtype=torch.uint8), torch.zeros(16, dtype=torch.int8)
    f(a.view(torch.int8), b)
    assert b.tolist() == [*range(-1, -9, -1), *range(7, -1, -1)]
