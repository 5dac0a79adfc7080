"""Inputs, references, comparison, cost: the parts of a run that need no compiler."""
from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from emit_support import program  # noqa: E402
from hand_programs import gemm  # noqa: E402
from tilec.runtime.compare import Tolerance, compare, tolerance  # noqa: E402
from tilec.runtime.cost import flops  # noqa: E402
from tilec.runtime.inputs import InputError, make_arguments, roles_of  # noqa: E402
from tilec.runtime.oracle import _packed, _unpacked  # noqa: E402
from tilec.runtime.reference import ReferenceFault, call_reference, find_functions, user_inputs  # noqa: E402
from tilec.runtime.timing import summarise  # noqa: E402
from tilec.runtime.usermodule import execute_file  # noqa: E402
from tilec.source import SourceFile  # noqa: E402

ADD = """
    N = T.dynamic("n")
    @T.prim_func
    def add(A: T.Tensor((N,), "float16"), B: T.Tensor((N,), "float16"), C: T.Tensor((N,), "float16")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                C[bx * 128 + i] = A[bx * 128 + i] + B[bx * 128 + i]
"""
COUNT = """
    @T.prim_func
    def count(A: T.Tensor((64,), "int32"), Bins: T.Tensor((10,), "int32")):
        with T.Kernel(1, threads=64) as bx:
            for i in T.Parallel(64):
                T.atomic_add(Bins[A[i]], 1)
"""


# -- inputs ------------------------------------------------------------------------------------------------------------------
def test_inputs_are_seeded_and_outputs_poisoned():
    made = program(ADD)
    roles = roles_of(made)
    assert [b.name for b in roles.outputs] == ["C"]
    a, b, c = make_arguments(made, roles, {"n": 300}, 1)
    again = make_arguments(made, roles, {"n": 300}, 1)
    assert a.shape == (300,) and a.dtype == torch.float16 and not torch.equal(a, b)
    assert torch.equal(a, again[0]) and bool(torch.isnan(c).all())
    assert not torch.equal(a, make_arguments(made, roles, {"n": 300}, 2)[0])


def test_an_extent_the_kernel_has_not():
    with pytest.raises(InputError, match="no run-time extent.*'m'.*n"):
        made = program(ADD)
        make_arguments(made, roles_of(made), {"m": 3}, 0)


def test_a_tensor_whose_type_is_not_known():
    made = program(ADD)
    made.params[0].dtype = "unknown"
    with pytest.raises(InputError, match="data type is not known"):
        make_arguments(made, roles_of(made), {}, 0)


def test_indices_are_in_range_and_what_is_accumulated_starts_at_zero():
    made = program(COUNT)
    a, bins = make_arguments(made, roles_of(made), {}, 0)
    assert int(a.min()) >= 0 and int(a.max()) < 10 and bins.tolist() == [0] * 10


# -- the user's functions -------------------------------------------------------------------------------------------------------
def functions(text: str, tmp_path, kernels=("add",)):
    path = str(tmp_path / "file.py")
    return find_functions(SourceFile(path, text), list(kernels)), execute_file(path, text)


@pytest.mark.parametrize("text, name", [
    ("def reference(A, B): return A + B", "reference"), ("def ref_program(A, B): return A + B", "ref_program"),
    ("def ref_add(A, B): return A + B\ndef reference(x): pass", "ref_add"),
    ("# tile-lsp: reference=mine\ndef mine(A, B): return A + B\ndef reference(): pass", "mine"), ("x = 1", ""),
])
def test_finding_the_reference(text, name, tmp_path):
    assert functions(text, tmp_path)[0].reference == name


def test_a_directive_that_names_nothing(tmp_path):
    with pytest.raises(ReferenceFault, match="'gone'"):
        functions("# tile-lsp: reference=gone\n", tmp_path)


@pytest.mark.parametrize("text", [
    "def reference(A, B): return A + B", "def reference(x, y): return (x + y,)", "def reference(A, B, C): C.copy_(A + B)",
    "def reference(A, bias, B): return A + B + bias", "def reference(*tensors): return tensors[0] + tensors[1]",
    "def reference(A, B, scale=1): return (A + B) * scale",
])
def test_calling_the_reference(text, tmp_path):
    made = program(ADD)
    roles = roles_of(made)
    values = make_arguments(made, roles, {}, 0)
    _, module = functions(text, tmp_path)
    (result,) = call_reference(module, "reference", made, roles, {"bias": 0}, values)
    assert torch.equal(result, values[0] + values[1])
    assert bool(torch.isnan(values[2]).all()), "the kernel's own output is not touched"


@pytest.mark.parametrize("text, said", [
    ("def reference(x): return x", "takes 1 arguments"), ("def reference(A, B): return A[:3]", "returns shape"),
    ("def reference(A, B): return A, B", "returns 2 values"), ("def reference(A, B): return A @ nothing", "NameError.*line 1"),
])
def test_references_that_do_not_fit(text, said, tmp_path):
    made = program(ADD)
    roles = roles_of(made)
    with pytest.raises(ReferenceFault, match=said):
        call_reference(functions(text, tmp_path)[1], "reference", made, roles, {}, make_arguments(made, roles, {}, 0))


def test_inputs_given_by_the_file(tmp_path):
    made = program(ADD)
    roles = roles_of(made)
    values = make_arguments(made, roles, {}, 0)
    text = "import torch\ndef inputs(n): return torch.ones(n).half(), torch.zeros(n).half(), torch.zeros(n).half()"
    a, b, c = user_inputs(functions(text, tmp_path)[1], "inputs", made, roles, {"n": 7}, values)
    assert a.tolist() == [1.0] * 7 and b.shape == (7,) and c.tolist() == [0.0] * 7
    with pytest.raises(ReferenceFault, match="returns 1 values"):
        user_inputs(functions("import torch\ndef inputs(): return torch.ones(3).half()", tmp_path)[1], "inputs", made, roles, {}, values)


def test_a_file_whose_top_level_needs_a_gpu_still_gives_its_functions(tmp_path):
    text = ("import tilelang\nimport tilelang.language as T\nkernel = undefined_thing(3)\nassert kernel(1) == 2\n"
            "@tilelang.jit(out_idx=[-1])\ndef make(): pass\ndef reference(A): return A\n")
    module = execute_file(str(tmp_path / "f.py"), text)
    assert module.names["reference"](4) == 4 and "line 3" in module.failure and "NameError" in module.failure


# -- comparing -------------------------------------------------------------------------------------------------------------------
def output():
    return roles_of(program(ADD)).outputs[0]


def test_nan_and_infinity_are_equal_to_themselves():
    values = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    same = compare(output(), values, values.clone(), Tolerance(0.0, 0.0))
    assert same.mismatch is None and same.max_abs == 0
    wrong = compare(output(), values, torch.tensor([float("nan"), float("inf"), float("inf"), 1.0]), Tolerance(1e-2, 1e-2))
    assert wrong.mismatch is not None and wrong.mismatch.first == (2,) and math.isinf(wrong.max_abs)


def test_the_wrong_elements_are_counted_and_placed():
    expected = torch.ones(64, 32)
    actual = expected.clone()
    actual[16:32, 8:16] = 3.0
    found = compare(output(), actual, expected, Tolerance(1e-3, 1e-3), (16, 8))
    m = found.mismatch
    assert m is not None and (m.count, m.total, m.first, m.actual, m.expected) == (128, 2048, (16, 8), 3.0, 1.0)
    assert m.cell == (16, 8) and m.wrong_map == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert found.max_abs == 2.0 and found.mean_abs == pytest.approx(2.0 * 128 / 2048)


def test_integers_must_be_equal():
    made = program(COUNT)
    allowed = tolerance(made, roles_of(made).outputs[0], 64, False)
    large = torch.tensor([2**62, 5])
    bins = roles_of(made).outputs[0]
    assert compare(bins, large, large.clone(), allowed).mismatch is None
    assert compare(bins, large, large + torch.tensor([1, 0]), allowed).mismatch is not None


def test_one_missing_slice_of_a_product_is_no_rounding():
    """The tolerance passes a product computed differently and refuses one that lacks 1 of 32 slices of K."""
    made = gemm(64, 64, 1024, 64, 64, 32, "float16")
    c = roles_of(made).outputs[0]
    g = torch.Generator().manual_seed(0)
    a, b = (torch.randn(s, generator=g).half() for s in ((64, 1024), (1024, 64)))
    allowed = tolerance(made, c, 1024, True)
    exact = (a.double() @ b.double()).half()
    assert compare(c, (a.float() @ b.float()).half(), exact, allowed).mismatch is None
    assert compare(c, (a[:, 32:].float() @ b[32:].float()).half(), exact, allowed).mismatch is not None


def test_packed_values_keep_their_order():
    raw = torch.tensor([[0x21, 0xF8]], dtype=torch.uint8)
    assert _unpacked(raw, signed=False).tolist() == [[1, 2, 8, 15]]
    assert _unpacked(raw, signed=True).tolist() == [[1, 2, -8, -1]]
    assert torch.equal(_packed(_unpacked(raw, signed=True)), raw)


# -- cost and time ---------------------------------------------------------------------------------------------------------------
def test_operations_of_a_product():
    assert flops(gemm(256, 128, 512, 64, 64, 32, "float16"), {}) == 2 * 256 * 128 * 512


def test_percentiles():
    found = summarise([float(x) for x in range(1, 12)])
    assert (found.median, found.p20, found.p80) == (6.0, 3.0, 9.0)
