"""What depends on unwritten memory is followed: harmless where nothing comes of it, a fault where it matters."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from emit_support import prim  # noqa: E402
from tilec.runtime.interpreter import interpret  # noqa: E402

PARTLY_WRITTEN = """
x = T.alloc_fragment((8,), "float32")
y = T.alloc_fragment((8,), "float32")
for i in T.Parallel(8):
    if i < 5:
        x[i] = A[i]
"""
SIGNATURE = 'A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")'


def arguments():
    return [torch.arange(1.0, 9.0), torch.full((8,), -1.0)]


def result_of(body: str, signature: str = SIGNATURE, given=None, kernel: str = "1, threads=32"):
    inner = "\n".join("    " + line for line in body.strip("\n").splitlines())
    values = arguments() if given is None else given
    return interpret(prim(signature, f"with T.Kernel({kernel}) as bx:\n{inner}\n"), values), values


HARMLESS = {
    "padding that is computed on and never stored": "T.copy(x, y)\nfor i in T.Parallel(8):\n    y[i] = y[i] * 2\nfor i in T.Parallel(8):\n    if i < 5:\n        B[i] = y[i]",
    "a guarded choice": "for i in T.Parallel(8):\n    B[i] = T.if_then_else(i < 5, x[i] * 2, 0.0)",
    "written later": "T.copy(x, y)\nfor i in T.Parallel(8):\n    if i >= 5:\n        y[i] = 3\nT.copy(y, B)",
}


@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
def test_harmless(body):
    result, (a, b) = result_of(PARTLY_WRITTEN + body)
    assert result.faults == []
    expected = a[:5] if "written later" in body or "= 3" in body else a[:5] * 2
    assert torch.equal(b[:5], expected)


# body, the element named first, the line (from the kernel's first statement) of the read that is reported
HARMFUL = {
    "copied out": ("T.copy(x, B)", "x[5]"),
    "through another buffer": ("T.copy(x, y)\nfor i in T.Parallel(8):\n    B[i] = y[i] + 1", "x[5]"),
    "summed": ("r = T.alloc_fragment((1,), 'float32')\nT.reduce_sum(x, r, dim=0)\nT.copy(r, B[0:1])", "x[5]"),
    "hidden by a maximum": ("r = T.alloc_fragment((1,), 'float32')\nT.reduce_max(x, r, dim=0)\nT.copy(r, B[0:1])", "x[5]"),
    "a prefix sum": ("s = T.alloc_shared((8,), 'float32')\nT.copy(x, s)\nT.cumsum(s, dim=0)\nT.copy(s, B)", "x[5]"),
    "a condition": ("for i in T.Parallel(8):\n    if x[i] > 0:\n        B[i] = 1", "x[5]"),
    "an index": ("for i in T.Parallel(8):\n    B[T.cast(x[i], 'int32') % 8] = 1", "x[5]"),
    "added to an output": ("T.atomic_add(B, x)", "x[5]"),
    "named and stored": ("for i in T.Parallel(8):\n    v = x[i] * 2\n    B[i] = v", "x[5]"),
}


@pytest.mark.parametrize("body, element", HARMFUL.values(), ids=HARMFUL)
def test_harmful(body, element):
    result, _ = result_of(PARTLY_WRITTEN + body)
    assert [f.kind for f in result.faults] == ["uninitialised-read"], result.faults
    assert element in result.faults[0].message and result.faults[0].span is not None


def test_a_running_maximum_that_nobody_started():
    result, _ = result_of(
        """
x = T.alloc_fragment((4, 8), "float32")
m = T.alloc_fragment((4,), "float32")
T.copy(A, x)
T.reduce_max(x, m, dim=1, clear=False)
T.copy(m, B)
""",
        'A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")',
        [torch.randn(4, 8), torch.zeros(4)],
    )
    assert [f.kind for f in result.faults] == ["uninitialised-read"] and "m[0]" in result.faults[0].message


GEMM = """
As = T.alloc_shared((16, 16), "float16")
Bs = T.alloc_shared((16, 16), "float16")
acc = T.alloc_fragment((16, 16), "float32")
{first}
T.copy(A, Bs)
T.gemm(As, Bs, acc, clear_accum={clear})
T.copy(acc{part}, B{part})
"""
TOP = "for i, j in T.Parallel(16, 16):\n    if i < 8:\n        As[i, j] = A[i, j]"


@pytest.mark.parametrize(
    "first, clear, part, faulty",
    [
        ("T.copy(A, As)", True, "", None),
        ("T.copy(A, As)", False, "", "acc[0, 0]"),
        (TOP, True, "", "As[8, 0]"),
        (TOP, True, "[0:8, :]", None),
    ],
)
def test_products(first, clear, part, faulty):
    a = torch.randn(16, 16).half()
    result, (_, b) = result_of(
        GEMM.format(first=first, clear=clear, part=part), 'A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float32")', [a, torch.zeros(16, 16)]
    )
    if faulty is None:
        assert result.faults == []
        rows = 8 if part else 16
        torch.testing.assert_close(b[:rows], (a.float() @ a.float())[:rows], rtol=1e-5, atol=1e-5)
    else:
        assert len(result.faults) == 1 and faulty in result.faults[0].message


def test_writing_through_a_view_counts():
    result, (a, b) = result_of("""
x = T.alloc_shared((8,), "float32")
v = T.view(x, (8,), dtype="int32")
for i in T.Parallel(8):
    v[i] = T.reinterpret(A[i], "int32")
T.copy(x, B)
""")
    assert result.faults == [] and torch.equal(a, b)


# -- memory that each iteration has for itself -------------------------------------------------------------------------------------
def test_a_variable_inside_a_parallel_loop_is_each_iterations_own():
    result, (a, b) = result_of("""
t = T.alloc_var("float32", init=1)
for i in T.Parallel(8):
    t = A[i] * 2
    B[i] = t + 1
""")
    assert result.faults == [] and torch.equal(b, a * 2 + 1)


def test_what_iterations_leave_different_is_known_to_nobody():
    result, _ = result_of("""
t = T.alloc_var("float32", init=0)
for i in T.Parallel(8):
    t = A[i]
B[0] = t
""")
    assert [f.kind for f in result.faults] == ["uninitialised-read"]


def test_a_negative_index_that_is_no_literal_does_not_wrap():
    result, (a, b) = result_of("""
for k in T.serial(2):
    B[k] = A[k - 1] + A[-1]
""")
    assert result.faults == [] and b[:2].tolist() == [8.0, 9.0]  # A[-1 at run time] lies outside: 0
