"""CUDA text on a real GPU: casts and scalar operations give what torch gives."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from test_emit_cuda import _operations, add_program, elementwise  # noqa: E402
from tilec.ir.build import binary, cast  # noqa: E402
from tilec.ir.expr import Call  # noqa: E402
from tilec.pipeline import Artifact  # noqa: E402
from tilec.runtime import gpu  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu.available(), reason="no GPU")]
TYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")


def run(program, *tensors):
    target = gpu.local_target()
    kernel = gpu.GpuKernel(Artifact(program, target, program, program))
    kernel(*tensors)
    torch.cuda.synchronize()


def inputs(dtype: str, seed: int = 0, low: float = -100, high: float = 100):
    kind = getattr(torch, dtype)
    g = torch.Generator().manual_seed(seed)
    if dtype == "bool":
        return torch.rand(32, generator=g) < 0.5
    values = torch.rand(32, generator=g, dtype=torch.float64) * (high - low) + low
    return values.to(kind) if kind.is_floating_point else values.round().to(kind)


@pytest.mark.parametrize("source", TYPES)
def test_casts(source):
    for target in TYPES:
        low = 0 if "uint8" in (source, target) else -100
        a = inputs(source, low=low)
        out = torch.zeros(1, 32).to(getattr(torch, target)).cuda()
        run(elementwise([lambda x, y, target=target: cast(x, target)], source, target), a.cuda(), a.cuda(), out)
        kind = getattr(torch, target)
        expected = a.to(torch.float32).to(kind) if "float8" in target else a.to(kind)
        assert torch.equal(out[0].cpu().double(), expected.double()), (source, target)


def test_rounding_and_saturation_of_narrow_floats():
    ties = torch.tensor([1.0 + 2**-11, 1.0 + 3 * 2**-11, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 6.1e-5, 3e-8, -0.0, 0.0625 * 17, 0.0625 * 19, 2**-9, 3 * 2**-11,
                         2**-16, 3 * 2**-18, 447.9, -448.0, 0.3] * 2)
    for target in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        out = torch.zeros(1, 32).to(getattr(torch, target)).cuda()
        run(elementwise([lambda x, y, target=target: cast(x, target)], "float32", target), ties.cuda(), ties.cuda(), out)
        assert torch.equal(out[0].cpu().float(), ties.to(getattr(torch, target)).float()), target
    big = torch.tensor([1e6, -1e6] * 16)
    for target, largest in (("float8_e4m3fn", 448.0), ("float8_e5m2", 57344.0)):
        out = torch.zeros(1, 32).to(getattr(torch, target)).cuda()
        run(elementwise([lambda x, y, target=target: cast(x, target)], "float32", target), big.cuda(), big.cuda(), out)
        assert out[0].cpu().float().tolist() == [largest, -largest] * 16


FUNCTIONS = {
    "exp": torch.exp, "exp2": torch.exp2, "exp10": lambda x: 10.0**x, "log": torch.log, "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh,
    "tanh": torch.tanh, "atan": torch.atan, "asinh": torch.asinh, "erf": torch.erf, "sigmoid": torch.sigmoid, "floor": torch.floor, "ceil": torch.ceil,
    "trunc": torch.trunc, "round": lambda x: torch.floor(x + 0.5), "nearbyint": torch.round, "abs": torch.abs, "__exp": torch.exp, "__log": torch.log,
    "__sin": torch.sin, "__cos": torch.cos, "ieee_fsqrt": torch.sqrt, "ieee_frcp": torch.reciprocal, "ieee_frsqrt": torch.rsqrt,
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_scalar_functions(dtype):
    names = [n for n in FUNCTIONS if dtype == "float32" or not n.startswith(("__", "ieee"))]
    a = inputs(dtype, low=0.1, high=3.0)
    out = torch.zeros(len(names), 32, dtype=getattr(torch, dtype)).cuda()
    run(elementwise([lambda x, y, n=n: Call(dtype, None, n, (x,)) for n in names], dtype), a.cuda(), a.cuda(), out)
    tolerance = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-12}[dtype]
    for n, row in zip(names, out.cpu()):
        torch.testing.assert_close(row.double(), FUNCTIONS[n](a.double()), rtol=tolerance, atol=tolerance, msg=lambda m, n=n: f"{n}: {m}")


INTEGERS = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "floordiv": lambda x, y: torch.div(x, y, rounding_mode="floor"), "floormod": torch.remainder,
    "truncdiv": lambda x, y: torch.div(x, y, rounding_mode="trunc"), "truncmod": torch.fmod, "min": torch.minimum, "max": torch.maximum,
    "bitand": torch.bitwise_and, "bitor": torch.bitwise_or, "bitxor": torch.bitwise_xor,
}


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_integer_arithmetic_wraps_and_rounds_down(dtype):
    low = 0 if dtype == "uint8" else -100
    a, b = inputs(dtype, 1, low), inputs(dtype, 2, low)
    b[b == 0] = 7
    out = torch.zeros(len(INTEGERS), 32, dtype=getattr(torch, dtype)).cuda()
    run(elementwise([lambda x, y, op=op: binary(op, x, y) for op in INTEGERS], dtype), a.cuda(), b.cuda(), out)
    for op, row in zip(INTEGERS, out.cpu()):
        assert torch.equal(row, INTEGERS[op](a, b)), op


FLOATS = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "min": torch.minimum, "max": torch.maximum,
          "floordiv": lambda x, y: torch.floor(x / y), "floormod": lambda x, y: x - torch.floor(x / y) * y}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"])
def test_float_arithmetic(dtype):
    operations = list(FLOATS)[:6] if dtype not in ("float32", "float64") else list(FLOATS)
    a, b = inputs(dtype, 1, -4, 4), inputs(dtype, 2, 1, 4)
    out = torch.zeros(len(operations), 32).to(getattr(torch, dtype)).cuda()
    run(elementwise([lambda x, y, op=op: binary(op, x, y) for op in operations], dtype), a.cuda(), b.cuda(), out)
    wide = torch.float64 if dtype == "float64" else torch.float32
    for op, row in zip(operations, out.cpu()):
        expected = FLOATS[op](a.to(wide), b.to(wide)).to(getattr(torch, dtype))
        torch.testing.assert_close(row.double(), expected.double(), rtol=1e-5 if dtype == "float32" else 0, atol=1e-5 if dtype == "float32" else 0, msg=lambda m, op=op: f"{op}: {m}")


@pytest.mark.parametrize("dtype, vector", [("float16", 8), ("bfloat16", 8), ("float32", 4), ("int8", 16), ("float8_e4m3fn", 16), ("float64", 2), ("int16", 8)])
def test_wide_accesses(dtype, vector):
    a, b = (inputs(dtype, s, -8, 8).repeat(128) for s in (1, 2))
    c = torch.zeros(4096).to(getattr(torch, dtype)).cuda()
    run(add_program(dtype, vector=vector), a.cuda(), b.cuda(), c)
    expected = (a.float() + b.float()).to(getattr(torch, dtype)) if a.dtype.is_floating_point and dtype != "float64" else a + b
    assert torch.equal(c.cpu().double(), expected.double())


def test_every_operation_loads_and_runs():
    for dtype in ("uint16", "uint32", "uint64", "float32"):
        operations = _operations(dtype)
        a = torch.ones(32).to(getattr(torch, dtype)).cuda()
        out = torch.zeros(len(operations), 32).to(getattr(torch, dtype)).cuda()
        run(elementwise(operations, dtype), a, a, out)
