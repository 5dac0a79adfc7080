"""T.gemm_sp: products with a 2:4 sparse matrix, by the CPU, the interpreter, thread by thread with mma.sp and wgmma's sparse form, and assembled."""
from __future__ import annotations

import numpy as np
import pytest
from sparse_semantics import compressed
from transform_support import decode, device_functions, encode, execute, lowered

torch = pytest.importorskip("torch")

from tilec.build.nvcc import find_nvcc  # noqa: E402
from tilec.ir import dtypes  # noqa: E402
from tilec.jit import compile  # noqa: E402
from tilec.jit.language import member  # noqa: E402
from tilec.jit.trace import prim_func  # noqa: E402
from tilec.runtime import gpu  # noqa: E402
from tilec.runtime.interpreter import interpret  # noqa: E402


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name):
        return member("tilelang.language", name)


T = _Language()


def product(M, N, K, dtype="float16", accumulate="float32", meta="int16", ta=False, te=False, tb=False, threads=128, a_scope="shared", b_scope="shared", blocks=1,
            stages=0, policy="Square", op="gemm_sp"):
    """``blocks`` steps along K."""
    factor = dtypes.bits(meta) // 4 * (2 if dtypes.bits(dtype) == 32 else 4)
    k = K // blocks
    multiply = getattr(T, op)

    @T.prim_func
    def main(A: T.Tensor((K // 2, M) if ta else (M, K // 2), dtype), E: T.Tensor((K // factor, M) if te else (M, K // factor), meta),
             B: T.Tensor((N, K) if tb else (K, N), dtype), C: T.Tensor((M, N), accumulate)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((k // 2, M) if ta else (M, k // 2), dtype)
            e = T.alloc_shared((k // factor, M) if te else (M, k // factor), meta)
            b = T.alloc_shared((N, k) if tb else (k, N), dtype)
            a_own = T.alloc_fragment((k // 2, M) if ta else (M, k // 2), dtype)
            b_own = T.alloc_fragment((N, k) if tb else (k, N), dtype)
            c = T.alloc_fragment((M, N), accumulate)
            T.clear(c)
            for i in T.Pipelined(blocks, num_stages=stages):
                T.copy(A[i * (k // 2) if ta else 0, 0 if ta else i * (k // 2)], a)
                T.copy(E[i * (k // factor) if te else 0, 0 if te else i * (k // factor)], e)
                T.copy(B[0 if tb else i * k, i * k if tb else 0], b)
                if a_scope == "fragment":
                    T.copy(a, a_own)
                if b_scope == "fragment":
                    T.copy(b, b_own)
                multiply(a_own if a_scope == "fragment" else a, e, b_own if b_scope == "fragment" else b, c, ta, te, tb, policy=getattr(T.GemmWarpPolicy, policy))
            T.copy(c, C)

    return main


def arguments(M, N, K, dtype="float16", accumulate="float32", meta="int16", ta=False, te=False, tb=False, seed=0, **_):
    """Small whole numbers, so that every order of summation gives the same."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype.startswith("u") else -3
    dense = rng.integers(low, 4, (M, K)).astype(np.float64)
    group = 2 if dtypes.bits(dtype) == 32 else 4
    keep = np.argsort(rng.random((M, K // group, group)), axis=-1) < group // 2
    dense *= keep.reshape(M, K)
    kept, words = compressed(dense, dtypes.bits(dtype), dtypes.bits(meta))
    b = rng.integers(low, 4, (K, N)).astype(np.float64)
    given = [kept.T if ta else kept, words.T if te else words, b.T if tb else b]
    return [np.ascontiguousarray(x) for x in given], dense @ b


def as_tensors(given, dtype, meta):
    a, e, b = given
    kind = getattr(torch, dtype)
    words = torch.from_numpy(e.astype(f"uint{dtypes.bits(meta)}").view(f"int{dtypes.bits(meta)}")).view(getattr(torch, meta))
    return [torch.from_numpy(a).to(kind), words, torch.from_numpy(b).to(kind)]


CASES = [
    {"M": 32, "N": 16, "K": 64}, {"M": 32, "N": 32, "K": 64, "tb": True, "meta": "int8"}, {"M": 64, "N": 24, "K": 32, "ta": True, "te": True, "meta": "int32"},
    {"M": 64, "N": 32, "K": 64, "dtype": "bfloat16", "meta": "uint8", "te": True}, {"M": 32, "N": 32, "K": 32, "dtype": "float32", "meta": "int8"},
    {"M": 32, "N": 32, "K": 64, "dtype": "float32", "meta": "int16", "tb": True}, {"M": 32, "N": 32, "K": 128, "dtype": "int8", "accumulate": "int32", "meta": "int32", "tb": True},
    {"M": 32, "N": 16, "K": 64, "dtype": "uint8", "accumulate": "int32", "meta": "int16"}, {"M": 32, "N": 32, "K": 64, "a_scope": "fragment"},
    {"M": 32, "N": 32, "K": 64, "b_scope": "fragment", "tb": True}, {"M": 32, "N": 32, "K": 128, "dtype": "int8", "accumulate": "int32", "meta": "int8", "a_scope": "fragment", "b_scope": "fragment", "tb": True},
    {"M": 32, "N": 32, "K": 128, "blocks": 2, "stages": 2}, {"M": 32, "N": 16, "K": 16}, {"M": 20, "N": 12, "K": 32, "meta": "int8"}, {"M": 64, "N": 16, "K": 64, "accumulate": "float16"},
    {"M": 64, "N": 16, "K": 64, "policy": "FullRow"}, {"M": 16, "N": 64, "K": 64, "policy": "FullCol"},
]
WGMMA = [
    {"M": 64, "N": 32, "K": 64}, {"M": 128, "N": 64, "K": 64, "tb": True, "threads": 256, "meta": "int8"}, {"M": 128, "N": 16, "K": 128, "dtype": "bfloat16", "meta": "int32", "te": True},
    {"M": 64, "N": 32, "K": 64, "ta": True}, {"M": 64, "N": 16, "K": 128, "dtype": "int8", "accumulate": "int32", "meta": "int32", "tb": True},
    {"M": 64, "N": 48, "K": 32, "tb": True}, {"M": 64, "N": 32, "K": 128, "a_scope": "fragment"}, {"M": 64, "N": 64, "K": 64, "threads": 256, "policy": "FullCol", "tb": True},
]
EIGHT_BIT_FLOATS = {"M": 64, "N": 32, "K": 128, "dtype": "float8_e4m3fn", "meta": "int16", "tb": True}


def identify(case):
    return " ".join(f"{k}={v}" for k, v in case.items())


def by_threads(program, given, case, target):
    a, e, b = given
    dtype, meta = case.get("dtype", "float16"), case.get("meta", "int16")
    after = execute(lowered(program, target), A=decode(encode(a, dtype), dtype), E=e.view(meta), B=decode(encode(b, dtype), dtype))
    return np.asarray(after["C"], np.float64)


@pytest.mark.parametrize("case", CASES, ids=identify)
def test_products_are_the_same_everywhere(case):
    program = product(**case).program
    given, expected = arguments(**case)
    tensors = as_tensors(given, case.get("dtype", "float16"), case.get("meta", "int16"))
    c = torch.zeros(case["M"], case["N"], dtype=getattr(torch, case.get("accumulate", "float32")))
    found = interpret(program, [*tensors, c])
    assert not found.faults and np.array_equal(c.double().numpy(), expected)
    if not case.get("stages"):
        assert np.array_equal(by_threads(program, given, case, "sm_80"), expected)
    on_cpu = compile(product(**case), out_idx=-1, target="cpu")
    assert np.array_equal(on_cpu(*tensors).double().numpy(), expected)


@pytest.mark.parametrize("case", WGMMA, ids=identify)
def test_warpgroups_multiply_sparse_tiles(case):
    program = product(**case).program
    given, expected = arguments(**case)
    made = lowered(program, "sm_90a")
    assert any(name.startswith("tile_wgmma_sp_m64") for name in device_functions(made))
    assert np.array_equal(by_threads(program, given, case, "sm_90a"), expected)


def test_part_of_an_instruction_and_old_chips_are_done_by_threads():
    assert not [n for n in device_functions(lowered(product(32, 16, 16).program, "sm_80")) if "mma_sp" in n]
    assert not [n for n in device_functions(lowered(product(32, 16, 64).program, "sm_75")) if "mma_sp" in n]
    assert [n for n in device_functions(lowered(product(32, 16, 64).program, "sm_80")) if "mma_sp" in n]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_the_assembler_takes_them(target):
    if find_nvcc() is None:
        pytest.skip("no nvcc")
    cases = [CASES[0], CASES[5], WGMMA[1], WGMMA[4], WGMMA[3], WGMMA[6], {"M": 128, "N": 128, "K": 512, "blocks": 8, "stages": 2}]
    for case in [*cases, *([] if target == "sm_80" else [EIGHT_BIT_FLOATS])]:
        kernel = compile(product(**case), target=target)
        text = kernel.get_kernel_source()
        assert ("wgmma.mma_async.sp" if target == "sm_90a" and case in WGMMA + [EIGHT_BIT_FLOATS, cases[-1]] else "mma.sp::ordered_metadata") in text
        kernel.build()
        assert kernel.n_spills == 0 and "C7510" not in kernel.artifact.cubin().log


@pytest.mark.gpu
@pytest.mark.skipif(not gpu.available(), reason="no GPU")
@pytest.mark.parametrize("case", [*CASES, *WGMMA, EIGHT_BIT_FLOATS, {"M": 128, "N": 128, "K": 512, "blocks": 8, "stages": 2}], ids=identify)
def test_products_are_exact_on_a_gpu(case):
    given, expected = arguments(**case)
    tensors = [t.cuda() for t in as_tensors(given, case.get("dtype", "float16"), case.get("meta", "int16"))]
    kernel = compile(product(**case), out_idx=-1)
    assert np.array_equal(kernel(*tensors).double().cpu().numpy(), expected)
