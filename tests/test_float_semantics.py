"""Floats keep their rounding, their order of operations and their NaNs: in literals, on the CPU, in what CUDA text says."""
from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

from emit_support import on_cpu, prim  # noqa: E402
from tilec.ir import build  # noqa: E402
from tilec.ir.expr import Const  # noqa: E402

SPECIAL = torch.tensor([float("nan"), 2.0, -3.0, float("inf"), 0.1, -0.0])
IDENTITIES = {
    "x - x": lambda x: x - x, "x * 0.0": lambda x: x * 0.0, "0.0 / x": lambda x: 0.0 / x, "x / x": lambda x: x / x,
    "(x + 1e30) - 1e30": lambda x: (x + 1e30) - 1e30, "(x + 1.0) - (x + 1.0)": lambda x: (x + 1) - (x + 1),
    "(x + 12582912.0) - 12582912.0": lambda x: (x + 12582912.0) - 12582912.0, "(x * 3.0) * 1e38": lambda x: (x * 3.0) * 1e38,
    "T.clamp(x, -1.0, 1.0)": lambda x: x.clamp(-1, 1), "T.max(x, 1.0)": lambda x: torch.fmax(x, torch.tensor(1.0)),
}
TRUTHS = {
    "x != x": lambda x: x != x, "x == x": lambda x: x == x, "x <= x": lambda x: x <= x, "T.isnan(x)": torch.isnan, "T.isinf(x)": torch.isinf,
    "T.isfinite(x)": torch.isfinite, "not (x < 1.0)": lambda x: ~(x < 1), "T.Or(x < 1.0, x >= 1.0)": lambda x: (x < 1) | (x >= 1),
    "x + 1.0 > x": lambda x: x + 1 > x,
}


def applied(text: str, dtype: str = "float32"):
    n = len(SPECIAL)
    f = on_cpu(prim(f'A: T.Tensor(({n},), "{dtype}"), B: T.Tensor(({n},), "{dtype}")', f"""
with T.Kernel(1, threads={n}):
    for i in T.Parallel({n}):
        x = A[i]
        B[i] = {text}
"""))
    kind = getattr(torch, dtype)
    a, b = SPECIAL.to(kind), torch.full((n,), 77.0).to(kind)
    f(a, b)
    return a, b


@pytest.mark.parametrize("text", IDENTITIES)
def test_floats_are_no_real_numbers(text):
    a, b = applied(text)
    assert torch.equal(b.nan_to_num(555.0), IDENTITIES[text](a).nan_to_num(555.0)), (b, IDENTITIES[text](a))


@pytest.mark.parametrize("text", TRUTHS)
def test_comparisons_with_nan(text):
    a, b = applied(f"T.if_then_else({text}, 1.0, 0.0)")
    assert b.bool().tolist() == TRUTHS[text](a).tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_nan_in_other_floats(dtype):
    assert applied("T.if_then_else(T.isnan(x), 1.0, 0.0)", dtype)[1].tolist() == [1, 0, 0, 0, 0, 0]
    a, b = applied("T.clamp(x, -1.0, 1.0)", dtype)
    assert math.isnan(b[0]) and torch.equal(b[1:], a[1:].clamp(-1, 1))


def test_literals_are_what_their_type_holds():
    f = on_cpu(prim('B: T.Tensor((6,), "float32"), C: T.Tensor((6,), "int32")', """
with T.Kernel(1, threads=1):
    B[0] = T.ceil(T.float32(8388608.5))
    B[1] = T.cast(T.ceil(T.float16(2049.0)), "float32")
    B[2] = T.trunc(T.float32(0.99999999))
    B[3] = 3.4028234e38
    B[4] = T.max(T.float32(float("nan")), T.float32(1.0))
    B[5] = T.cast(T.float16(2049.0), "float32") + T.float32(16777217.0)
    C[0] = T.cast(T.int32(300), "int8")
    C[1] = T.uint8(200) + T.uint8(100)
    C[2] = T.int32(2147483647) + T.int32(1)
    C[3] = T.cast(T.uint32(4294967295), "int32")
    C[4] = T.cast(T.int32(-1), "uint8")
    C[5] = ~T.int32(5)
"""))
    b, c = torch.zeros(6), torch.zeros(6, dtype=torch.int32)
    f(b, c)
    assert b.tolist() == [8388608.0, 2048.0, 1.0, 3.4028234663852886e38, 1.0, 16779264.0]
    assert c.tolist() == [44, 44, -2147483648, -1, 255, -6]


@pytest.mark.parametrize("dtype, value, wanted", [
    ("float32", 16777217.0, 16777216.0), ("float16", 70000.0, math.inf), ("bfloat16", 1.003, 1.0), ("float64", 0.1, 0.1), ("int8", 300, 44),
    ("uint8", -1, 255), ("bool", 3, True), ("float8_e4m3fn", 1.07, None)])
def test_held(dtype, value, wanted):
    from tilec.ir.held import held

    assert held(value, dtype) == wanted


def test_the_largest_float_is_finite_in_cuda_text():
    from tilec.emit.cuda.types import literal

    assert literal(3.4028235e38, "float32") == "3.4028234663852886e+38f" and "0x7f800000" in literal(1e39, "float32")


def test_conversions_outside_an_integer_type_are_left_to_the_target():
    assert isinstance(build.cast(build.const(3.7), "int8"), Const) and not isinstance(build.cast(build.const(300.5), "int8"), Const)
    folded = build.binary("max", build.const(1.0), build.const(math.nan))
    assert isinstance(folded, Const) and folded.value == 1.0
