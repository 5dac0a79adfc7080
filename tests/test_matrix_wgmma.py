"""Warpgroup matrix operations: what is chosen, how operands lie, the assembler's verdict, and on a Hopper GPU exact products."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tilec.build.nvcc import find_nvcc  # noqa: E402
from tilec.jit import compile  # noqa: E402
from tilec.jit.language import member  # noqa: E402
from tilec.jit.trace import prim_func  # noqa: E402
from tilec.runtime import gpu  # noqa: E402

ON_HOPPER = gpu.available() and torch.cuda.get_device_capability()[0] == 9


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


def product(M, N, K, threads=128, dtype="float16", accumulate="float32", transpose_A=False, transpose_B=False, in_registers=False, policy="Square"):
    """C = A @ B of one block; with ``in_registers`` A comes from a fragment."""
    @T.prim_func
    def main(A: T.Tensor((K, M) if transpose_A else (M, K), dtype), B: T.Tensor((N, K) if transpose_B else (K, N), dtype),
             C: T.Tensor((M, N), accumulate)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((K, M) if transpose_A else (M, K), dtype)
            b = T.alloc_shared((N, K) if transpose_B else (K, N), dtype)
            c = T.alloc_fragment((M, N), accumulate)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            if in_registers:
                r = T.alloc_fragment((M, K), dtype)
                T.copy(a, r)
                T.gemm(r, b, c, transpose_B=transpose_B, policy=getattr(T.GemmWarpPolicy, policy))
            else:
                T.gemm(a, b, c, transpose_A=transpose_A, transpose_B=transpose_B, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(c, C)

    return main


CASES = [
    {"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 128, "K": 64, "threads": 256}, {"M": 64, "N": 8, "K": 16, "transpose_B": True}, {"M": 192, "N": 24, "K": 32, "transpose_B": True}, {"M": 64, "N": 256, "K": 128},
    {"M": 64, "N": 512, "K": 32, "threads": 256, "policy": "FullCol"}, {"M": 128, "N": 128, "K": 64, "transpose_B": True}, {"M": 128, "N": 64, "K": 32, "transpose_A": True},
    {"M": 256, "N": 96, "K": 48, "threads": 256, "transpose_A": True, "transpose_B": True}, {"M": 128, "N": 192, "K": 64, "dtype": "bfloat16"},
    {"M": 128, "N": 64, "K": 64, "in_registers": True}, {"M": 256, "N": 128, "K": 64, "threads": 256, "in_registers": True, "transpose_B": True},
    {"M": 64, "N": 64, "K": 64, "threads": 256, "policy": "FullCol", "transpose_B": True, "in_registers": True}, {"M": 64, "N": 64, "K": 64, "accumulate": "float16"},
    {"M": 128, "N": 64, "K": 64, "dtype": "int8", "accumulate": "int32", "transpose_B": True}, {"M": 64, "N": 16, "K": 128, "dtype": "float8_e4m3fn", "transpose_B": True},
    {"M": 64, "N": 128, "K": 64, "dtype": "float8_e5m2", "transpose_B": True},
]


def identify(case):
    return " ".join(f"{k}={v}" for k, v in case.items())


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_the_assembler_takes_it_and_serialises_nothing(case):
    kernel = compile(product(**case), target="sm_90a")
    assert "wgmma.mma_async" in kernel.get_kernel_source()
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    kernel.build()
    log = kernel.artifact.cubin().log
    assert kernel.n_spills == 0 and "C7510" not in log and "serialized" not in log


@pytest.mark.parametrize("case", [
    {"M": 32, "N": 64, "K": 64}, {"M": 64, "N": 64, "K": 64, "threads": 64}, {"M": 64, "N": 64, "K": 64, "dtype": "float32"}, {"M": 64, "N": 64, "K": 64, "dtype": "int8", "accumulate": "int32"},
    {"M": 64, "N": 64, "K": 8},
], ids=identify)
def test_what_does_not_fit_is_done_by_warps(case):
    """Too few rows or threads, elements of 8 or 32 bits along N, half an instruction along K."""
    assert "wgmma" not in compile(product(**case), target="sm_90a").get_kernel_source()


@pytest.mark.parametrize("target", ["sm_80", "sm_100a", "sm_90"])
def test_other_chips_have_no_such_instruction(target):
    assert "wgmma" not in compile(product(64, 64, 64), target=target).get_kernel_source()


@pytest.mark.gpu
@pytest.mark.skipif(not ON_HOPPER, reason="no Hopper GPU")
@pytest.mark.parametrize("case", CASES, ids=identify)
def test_products_are_exact(case):
    kernel = compile(product(**case), out_idx=-1)
    options = {"dtype": "float16", "accumulate": "float32", "transpose_A": False, "transpose_B": False, **case}
    a, b = torch.randint(-3, 4, (case["M"], case["K"]), device="cuda"), torch.randint(-3, 4, (case["K"], case["N"]), device="cuda")
    dtype = getattr(torch, options["dtype"])
    given = [x.float().to(dtype).contiguous() for x in (a.T if options["transpose_A"] else a, b.T if options["transpose_B"] else b)]
    assert torch.equal(kernel(*given).double(), a.double() @ b.double())
