"""T.im2col: the matrix of a convolution, by threads, on the CPU and by the interpreter, against torch."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import prim
from tilec.pipeline import compile_program
from tilec.target.chips import find
from tilec.transform.bulk import images
from transform_support import device_functions, execute, lowered, numbers

torch = pytest.importorskip("torch")
CASES = [{"n": 2, "h": 6, "w": 5, "c": 16, "f": 16, "k": 3, "s": 1, "d": 1, "p": 1}, {"n": 1, "h": 9, "w": 7, "c": 8, "f": 16, "k": 3, "s": 2, "d": 1, "p": 1}, {"n": 2, "h": 7, "w": 7, "c": 16, "f": 8, "k": 2, "s": 1, "d": 2, "p": 0},
         {"n": 1, "h": 4, "w": 4, "c": 24, "f": 8, "k": 1, "s": 1, "d": 1, "p": 0}]


def convolution(n, h, w, c, f, k, s, d, p):
    oh, ow = ((x + 2 * p - d * (k - 1) - 1) // s + 1 for x in (h, w))
    return prim(f"A: T.Tensor(({n}, {h}, {w}, {c}), 'float16'), B: T.Tensor(({k * k * c}, {f}), 'float16'), C: T.Tensor(({n * oh * ow}, {f}), 'float32')", f"""
    with T.Kernel(T.ceildiv({n * oh * ow}, 32), threads=64) as by:
        a = T.alloc_shared((32, 16), 'float16')
        b = T.alloc_shared((16, {f}), 'float16')
        c = T.alloc_fragment((32, {f}), 'float32')
        T.clear(c)
        for step in T.Pipelined(T.ceildiv({k * k * c}, 16), num_stages=2):
            T.im2col(A, a, by, step, {k}, {s}, {d}, {p})
            T.copy(B[step * 16, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, 0])
    """)


def tensors(n, h, w, c, f, k, s, d, p):
    image, kernel = numbers((n, h, w, c), "float16"), numbers((k * k * c, f), "float16", 1)
    weights = torch.from_numpy(kernel.astype(np.float32)).reshape(k, k, c, f).permute(3, 2, 0, 1)
    made = torch.nn.functional.conv2d(torch.from_numpy(image.astype(np.float32)).permute(0, 3, 1, 2), weights, stride=s, dilation=d, padding=p)
    return image, kernel, made.permute(0, 2, 3, 1).reshape(-1, f).numpy()


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_threads_gather_what_the_kernel_meets(case, target):
    image, kernel, wanted = tensors(**case)
    program = lowered(convolution(**case), target)
    if case["c"] % 16 == 0 and target != "sm_75":
        assert "tile_cp_async_16_if" in device_functions(program), "pieces of channels run ahead"
    np.testing.assert_allclose(execute(program, A=image, B=kernel)["C"], wanted, atol=1e-2)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_cpu_and_the_interpreter_agree(case):
    from tilec.runtime.interpreter import interpret

    image, kernel, wanted = tensors(**case)
    program = convolution(**case)
    out = torch.zeros(wanted.shape)
    given = torch.from_numpy(image.astype(np.float16)), torch.from_numpy(kernel.astype(np.float16))
    compile_program(program, find("cpu")).host_callable()(*given, out)
    np.testing.assert_allclose(out.numpy(), wanted, atol=1e-2)
    again = torch.zeros(wanted.shape)
    interpret(program, [*given, again])
    np.testing.assert_allclose(again.numpy(), wanted, atol=1e-2)


# -- by the copy engine ----------------------------------------------------------------------------------------------------------------
IMAGES = [
    {"n": 2, "h": 6, "w": 5, "c": 32, "f": 64, "k": 3, "s": 1, "d": 1, "p": 1}, {"n": 1, "h": 13, "w": 12, "c": 64, "f": 64, "k": 3, "s": 2, "d": 1, "p": 1},
    {"n": 3, "h": 9, "w": 7, "c": 32, "f": 64, "k": 2, "s": 1, "d": 2, "p": 0}, {"n": 2, "h": 8, "w": 8, "c": 32, "f": 64, "k": 1, "s": 1, "d": 1, "p": 0},
    {"n": 2, "h": 7, "w": 9, "c": 32, "f": 64, "k": 3, "s": 1, "d": 1, "p": 0}, {"n": 2, "h": 5, "w": 6, "c": 32, "f": 64, "k": 3, "s": 3, "d": 2, "p": 3},
    {"n": 1, "h": 6, "w": 6, "c": 32, "f": 64, "k": 4, "s": 2, "d": 1, "p": 2},
]


def flat_convolution(n, h, w, c, f, k, s, d, p, m=64, step=32, threads=128, stages=2):
    """As TileLang's example writes it: weights and result in the shape of a product."""
    oh, ow = ((x + 2 * p - d * (k - 1) - 1) // s + 1 for x in (h, w))
    return prim(f"A: T.Tensor(({n}, {h}, {w}, {c}), 'float16'), B: T.Tensor(({k}, {k}, {c}, {f}), 'float16'), C: T.Tensor(({n}, {oh}, {ow}, {f}), 'float16')", f"""
    with T.Kernel(T.ceildiv({f}, 64), T.ceildiv({n * oh * ow}, {m}), threads={threads}) as (bx, by):
        a = T.alloc_shared(({m}, {step}), 'float16')
        b = T.alloc_shared(({step}, 64), 'float16')
        out = T.alloc_shared(({m}, 64), 'float16')
        c = T.alloc_fragment(({m}, 64), 'float32')
        weights = T.Tensor(({k * k * c}, {f}), 'float16', B.data)
        result = T.Tensor(({n * oh * ow}, {f}), 'float16', C.data)
        T.clear(c)
        for step in T.Pipelined(T.ceildiv({k * k * c}, {step}), num_stages={stages}):
            T.im2col(A, a, by, step, {k}, {s}, {d}, {p})
            T.copy(weights[step * {step}, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, out)
        T.copy(out, result[by * {m}, bx * 64])
    """)


def told(program, target="sm_90a"):
    return " ".join(map(str, compile_program(program, find(target)).decisions()))


@pytest.fixture
def any_row(monkeypatch):
    """Tiles are gathered by the copy engine even where threads are faster."""
    monkeypatch.setattr(images, "SHORTEST_ROW", 0)


@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_the_copy_engine_gathers_pixels(case, any_row):
    image, kernel, wanted = tensors(**case)
    program = flat_convolution(**case)
    assert "copy to a: bulk tensor copy (TMA) by the copying warp" in told(program) and "copy of out: bulk tensor copy (TMA)" in told(program)
    made = lowered(program, "sm_90a")
    assert "tile_tma_load_pixels" in device_functions(made)
    k, c, f = case["k"], case["c"], case["f"]
    found = execute(made, A=image, B=kernel.reshape(k, k, c, f))["C"]
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("m, step", [(128, 64), (64, 16), (192, 32), (64, 128)])
def test_panels_and_swizzles(m, step, any_row):
    case = {"n": 2, "h": 9, "w": 8, "c": 128, "f": 64, "k": 2, "s": 1, "d": 1, "p": 1}
    image, kernel, wanted = tensors(**case)
    made = lowered(flat_convolution(**case, m=m, step=step), "sm_90a")
    assert "tile_tma_load_pixels" in device_functions(made)
    found = execute(made, A=image, B=kernel.reshape(2, 2, 128, 64))["C"]
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("change, why", [({"c": 48}, "more than one place of the window"), ({"s": 9, "h": 40, "w": 40}, "strides of 1 to 8"), ({"p": 130}, "larger than"),
                                         ({"c": 36, "step": 36}, "no multiple of 16")], ids=str)
def test_what_it_cannot_gather_is_copied_by_threads(change, why):
    case = {"n": 1, "h": 6, "w": 6, "c": 32, "f": 64, "k": 3, "s": 1, "d": 1, "p": 1, **change}
    assert why in told(flat_convolution(**case))


def test_narrow_tiles_are_left_to_threads():
    case = {"n": 2, "h": 6, "w": 5, "c": 64, "f": 64, "k": 3, "s": 1, "d": 1, "p": 1}
    assert "threads gather pieces of 64 bytes" in told(flat_convolution(**case)) and "TMA" in told(flat_convolution(**case, step=64))
