"""T.im2col: the matrix of a convolution, by threads, on the CPU and by the interpreter, against torch."""
from __future__ import annotations

import numpy as np
import pytest
from emit_support import prim
from tilec.pipeline import compile_program
from tilec.target.chips import find
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
