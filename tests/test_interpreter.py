"""The reference interpreter computes what the same operation in torch computes, and reports what hardware would not forgive."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from emit_support import prim, program  # noqa: E402
from tilec.ir.stmt import TileOp  # noqa: E402
from tilec.runtime.interpreter import Unsupported, interpret  # noqa: E402
from tilec.runtime.interpreter.run import OutOfTime  # noqa: E402


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def nothing(*shape, dtype=torch.float32):
    return torch.full(shape, 77, dtype=torch.float32).to(dtype)


def made(signature: str, body: str, kernel: str = "1, threads=128"):
    inner = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return prim(signature, f"with T.Kernel({kernel}) as bx:\n{inner}\n")


def run(signature: str, body: str, *arguments, kernel: str = "1, threads=128"):
    result = interpret(made(signature, body, kernel), arguments)
    assert not result.faults, result.faults
    return result


def faults(signature: str, body: str, *arguments, kernel: str = "1, threads=128"):
    return interpret(made(signature, body, kernel), arguments).faults


# -- tile operators --------------------------------------------------------------------------------------------------------------
GEMM = """
As = T.alloc_shared({a}, "{dtype}")
Bs = T.alloc_shared({b}, "{dtype}")
acc = T.alloc_fragment((32, 48), "{out}")
T.copy(A, As)
T.copy(B, Bs)
T.clear(acc)
for k in T.serial(2):
    T.gemm(As, Bs, acc, transpose_A={ta}, transpose_B={tb})
T.copy(acc, C)
"""


@pytest.mark.parametrize("ta, tb", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype, out", [("float16", "float32"), ("int8", "int32")])
def test_gemm_accumulates(ta, tb, dtype, out):
    left, right = ((16, 32) if ta else (32, 16)), ((48, 16) if tb else (16, 48))
    g = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-100, 100, s, generator=g).to(getattr(torch, dtype)) for s in (left, right))
    c = nothing(32, 48, dtype=getattr(torch, out))
    run(
        f'A: T.Tensor({left}, "{dtype}"), B: T.Tensor({right}, "{dtype}"), C: T.Tensor((32, 48), "{out}")',
        GEMM.format(a=left, b=right, dtype=dtype, out=out, ta=ta, tb=tb),
        a,
        b,
        c,
    )
    wide = torch.float64
    expected = 2 * ((a.T if ta else a).to(wide) @ (b.T if tb else b).to(wide))
    torch.testing.assert_close(c.to(wide), expected)


def test_copy_across_edges_reads_zeros_and_drops_writes():
    a, b = normal(5, 6), nothing(5, 6)
    run(
        'A: T.Tensor((5, 6), "float32"), B: T.Tensor((5, 6), "float32")',
        """
s = T.alloc_shared((4, 4), "float32")
T.copy(A[bx // 2 * 4, bx % 2 * 4], s)
for i, j in T.Parallel(4, 4):
    s[i, j] = s[i, j] + 1
T.copy(s, B[bx // 2 * 4, bx % 2 * 4])
""",
        a,
        b,
        kernel="4, threads=32",
    )
    assert torch.equal(b, a + 1)


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("reduce_sum", lambda x: x.sum(1)),
        ("reduce_max", lambda x: x.amax(1)),
        ("reduce_min", lambda x: x.amin(1)),
        ("reduce_abssum", lambda x: x.abs().sum(1)),
        ("reduce_absmax", lambda x: x.abs().amax(1)),
    ],
)
def test_reductions(kind, expected):
    a, b = normal(8, 32), nothing(8)
    run(
        'A: T.Tensor((8, 32), "float32"), B: T.Tensor((8,), "float32")',
        f"""
x = T.alloc_fragment((8, 32), "float32")
r = T.alloc_fragment((8,), "float32")
T.copy(A, x)
T.{kind}(x, r, dim=1)
T.copy(r, B)
""",
        a,
        b,
    )
    torch.testing.assert_close(b, expected(a))


def test_reduction_that_keeps_the_old_value():
    a, b = normal(8, 32), nothing(8)
    run(
        'A: T.Tensor((8, 32), "float32"), B: T.Tensor((8,), "float32")',
        """
x = T.alloc_fragment((8, 32), "float32")
r = T.alloc_fragment((8,), "float32")
T.copy(A, x)
T.fill(r, 10)
T.reduce_sum(x, r, dim=1, clear=False)
T.copy(r, B)
""",
        a,
        b,
    )
    torch.testing.assert_close(b, 10 + a.sum(1))


@pytest.mark.parametrize("reverse", [False, True])
def test_prefix_sums(reverse):
    a, b = normal(4, 16), nothing(4, 16)
    run(
        'A: T.Tensor((4, 16), "float32"), B: T.Tensor((4, 16), "float32")',
        f"""
s = T.alloc_shared((4, 16), "float32")
T.copy(A, s)
T.cumsum(s, dim=1, reverse={reverse})
T.copy(s, B)
""",
        a,
        b,
    )
    torch.testing.assert_close(b, a.flip(1).cumsum(1).flip(1) if reverse else a.cumsum(1))


def test_atomics_of_many_iterations_on_one_element():
    a, b = torch.arange(64, dtype=torch.int32), torch.tensor([5, -3], dtype=torch.int32)
    run(
        'A: T.Tensor((64,), "int32"), B: T.Tensor((2,), "int32")',
        """
for i in T.Parallel(64):
    T.atomic_add(B[0], A[i])
    T.atomic_max(B[1], A[i])
""",
        a,
        b,
    )
    assert b.tolist() == [5 + 64 * 63 // 2, 63]


# -- scalars -----------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text, expected",
    [
        ("A[i] // 3", lambda x: torch.div(x, 3, rounding_mode="floor")),
        ("A[i] % 3", lambda x: torch.remainder(x, 3)),
        ("A[i] * 1000003", lambda x: x * 1000003),
        ("A[i] >> 1", lambda x: x >> 1),
        ("A[i] & 6", lambda x: x & 6),
        ("T.max(A[i], 2)", lambda x: x.clamp_min(2)),
        ("T.if_then_else(A[i] > 0, A[i], -A[i])", torch.abs),
    ],
)
def test_integer_arithmetic(text, expected):
    a, b = torch.arange(-5000, 5000, 79, dtype=torch.int32), torch.zeros(127, dtype=torch.int32)
    run(
        'A: T.Tensor((127,), "int32"), B: T.Tensor((127,), "int32")',
        f"""
for i in T.Parallel(127):
    B[i] = {text}
""",
        a,
        b,
    )
    assert torch.equal(b, expected(a))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_round_after_every_operation(dtype):
    kind = getattr(torch, dtype)
    a, b = normal(256, dtype=kind), nothing(256, dtype=kind)
    run(
        f'A: T.Tensor((256,), "{dtype}"), B: T.Tensor((256,), "{dtype}")',
        """
for i in T.Parallel(256):
    B[i] = A[i] * A[i] + A[i]
""",
        a,
        b,
    )
    assert torch.equal(b, a * a + a)
    assert not torch.equal(b.float(), (a.float() * a.float() + a.float()))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sqrt", "rsqrt", "sin", "tanh", "floor"])
def test_functions(name):
    a, b = normal(64).abs() + 0.1, nothing(64)
    run(
        'A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")',
        f"""
for i in T.Parallel(64):
    B[i] = T.{name}(A[i])
""",
        a,
        b,
    )
    torch.testing.assert_close(b, getattr(torch, name)(a))


def test_loops_with_variables_and_conditions():
    b = torch.zeros(4, dtype=torch.int32)
    run(
        'B: T.Tensor((4,), "int32")',
        """
total = T.alloc_var("int32", init=0)
for i in T.serial(10):
    if i % 2 == 0:
        total += i
    else:
        total += 100
for i in T.Parallel(4):
    if i < 2:
        B[i] = total
    else:
        B[i] = i
""",
        b,
    )
    assert b.tolist() == [520, 520, 2, 3]


def test_dynamic_extents_come_from_the_tensors():
    made_ = program("""
        N = T.dynamic("n")
        @T.prim_func
        def double(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
                for i in T.Parallel(64):
                    B[bx * 64 + i] = A[bx * 64 + i] * 2
    """)
    a, b = normal(150), nothing(150)
    assert not interpret(made_, [a, b]).faults
    assert torch.equal(b, a * 2)


# -- faults --------------------------------------------------------------------------------------------------------------------------
def test_reading_what_nothing_wrote_is_a_fault():
    found = faults(
        'B: T.Tensor((8,), "float32")',
        """
x = T.alloc_fragment((8,), "float32")
for i in T.Parallel(8):
    if i < 6:
        x[i] = 1
T.copy(x, B)
""",
        nothing(8),
    )
    assert [f.kind for f in found] == ["uninitialised-read"]
    assert "x[6]" in found[0].message and found[0].span is not None and found[0].span.line == 10


def test_an_index_beyond_an_on_chip_buffer_is_a_fault():
    found = faults(
        'A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")',
        """
x = T.alloc_shared((8,), "float32")
T.copy(A, x)
for i in T.Parallel(8):
    B[i] = x[i + 1]
""",
        normal(8),
        nothing(8),
    )
    assert [f.kind for f in found] == ["out-of-bounds"] and "index [8]" in found[0].message


BARRIER = """
s = T.alloc_shared((8,), "float32")
ready = T.alloc_barrier(1)
T.copy(A, s)
{arrive}
T.mbarrier_wait_parity(ready, {parity})
T.copy(s, B)
"""


@pytest.mark.parametrize("arrive, parity, completes", [("T.mbarrier_arrive(ready)", 0, True), ("", 0, False), ("", 1, True)])
def test_a_wait_that_cannot_complete_is_a_fault(arrive, parity, completes):
    found = faults('A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")', BARRIER.format(arrive=arrive, parity=parity), normal(8), nothing(8))
    assert [f.kind for f in found] == ([] if completes else ["barrier"])
    assert completes or (found[0].span is not None and "ready" in found[0].message)


# -- provenance and limits ------------------------------------------------------------------------------------------------------------
def test_every_element_knows_the_statement_that_wrote_it():
    made_ = made(
        'B: T.Tensor((16,), "float32")',
        """
x = T.alloc_fragment((8,), "float32")
T.fill(x, 1)
T.copy(x, B[0:8])
for i in T.Parallel(4):
    B[8 + i] = 2
""",
    )
    result = interpret(made_, [nothing(16)])
    (writers,) = result.writers.values()
    copy, store = (result.statements[int(writers[i])] for i in (0, 8))
    assert isinstance(copy, TileOp) and copy.op == "copy" and store.span is not None and copy.span is not None
    assert store.span.line > copy.span.line
    assert writers[:8].unique().numel() == 1 and writers[12:].tolist() == [-1] * 4


def test_time_is_limited():
    with pytest.raises(OutOfTime):
        interpret(made('B: T.Tensor((4,), "float32")', "for k in T.serial(100000000):\n    T.fill(B, 0)"), [nothing(4)], seconds=0.2)


def test_what_has_no_tile_semantics_is_refused_with_its_place():
    made_ = made(
        'B: T.Tensor((128,), "float32")',
        """
tx = T.get_thread_binding()
if tx < 64:
    T.sync_grid()
for i in T.Parallel(128):
    B[i] = tx
""",
        "2, threads=128",
    )
    with pytest.raises(Unsupported) as refused:
        interpret(made_, [nothing(128)])
    assert refused.value.span is not None and "blocks that wait for each other" in str(refused.value)
