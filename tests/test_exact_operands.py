"""Operands of tf32 products that tf32 holds exactly are not rounded first."""
from __future__ import annotations

import hopper_kernels as kernels
import numpy as np
import pytest
from thread_interpreter import execute
from tilec.ir.buffer import FRAGMENT, Buffer
from tilec.ir.build import cast, const
from tilec.ir.expr import Load, Var
from tilec.ir.stmt import Alloc, Parallel, Store
from tilec.transform.matrix.exact import exact_tiles

T = kernels.T


def widened_rows(M, N, K, given="bfloat16", scale=None, dtype="float32", out="float32"):
    """Rows of a narrow type in registers, as single precision, by a matrix of single precision."""

    @T.prim_func
    def main(A: T.Tensor((M, K), given), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(1, threads=64):
            a_tile = T.alloc_shared((M, K), given)
            b_tile = T.alloc_shared((N, K), dtype)
            narrow = T.alloc_fragment((M, K), given)
            a = T.alloc_fragment((M, K), dtype)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.copy(a_tile, narrow)
            T.copy(narrow, a)
            if scale is not None:
                for i, j in T.Parallel(M, K):
                    a[i, j] = a[i, j] * scale
            T.clear(c)
            T.gemm(a, b_tile, c, transpose_B=True)
            T.copy(c, C)

    return main


def artifact(program):
    from tilec.jit import compile

    return compile(program, target="sm_80").artifact


def rounded(program) -> str:
    """Which operands the instruction's function rounds."""
    text = artifact(program).text("cuda")
    function = text[text.index("void tile_mma_m16n8k8_tf32"):]
    function = function[:function.index("\n}\n")]
    return "".join(which for which in "ab" if f'"=r"({which}[0]) : "f"' in function)


@pytest.mark.parametrize("given, scale, expected", [
    ("bfloat16", None, "b"), ("float16", None, "b"), ("float32", None, "ab"), ("bfloat16", 0.3, "ab"), ("int8", None, "b"), ("int32", None, "ab"),
])
def test_what_is_rounded(given, scale, expected):
    assert rounded(widened_rows(32, 16, 32, given, scale)) == expected


@pytest.mark.parametrize("given", ["bfloat16", "float16"])
def test_products(given):
    a, b = (np.random.default_rng(k).integers(-4, 5, s).astype(np.float32) for k, s in enumerate(((32, 32), (16, 32))))
    assert np.array_equal(execute(artifact(widened_rows(32, 16, 32, given)).thread_program, A=a, B=b)["C"], a @ b.T)


def stores(*values):
    """A fragment, and whether it is exact when it is written by such stores, one after the other."""
    tile, other = (Buffer(name, (const(8),), "float32", FRAGMENT) for name in ("tile", "other"))
    narrow = Buffer("narrow", (const(8),), "bfloat16", FRAGMENT)
    i = Var("int32", None, "i", "loop")
    kinds = {"narrow": cast(Load("bfloat16", None, narrow, (i,)), "float32"), "zero": const(0.0), "third": const(1 / 3), "other": Load("float32", None, other, (i,)),
             "sum": Load("float32", None, tile, (i,)) + 1.0}
    body = [Alloc(None, b) for b in (tile, other, narrow)]
    body += [Parallel(None, (i,), (const(8),), (Store(None, tile, (i,), kinds[v]),)) for v in values if not v.endswith("=other")]
    body += [Parallel(None, (i,), (const(8),), (Store(None, other, (i,), kinds[v.partition("=")[0]]),)) for v in values if v.endswith("=other")]
    return tile in exact_tiles(tuple(body))


@pytest.mark.parametrize("values, expected", [
    (("narrow",), True), (("zero", "narrow"), True), (("third",), False), (("narrow", "sum"), False), (("other", "narrow=other"), True), (("other", "third=other"), False),
])
def test_every_store_counts(values, expected):
    assert stores(*values) is expected


# -- the copy engine rounds --------------------------------------------------------------------------------------------------------------
def pipelined(M, N, K, dtype="float32", read=False, block_K=32, threads=64):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float32"), R: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, block_K), dtype)
            b = T.alloc_shared((N, block_K), dtype)
            c = T.alloc_fragment((M, N), "float32")
            r = T.alloc_fragment((M,), "float32")
            T.clear(c)
            T.clear(r)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[0, k * block_K], a)
                T.copy(B[0, k * block_K], b)
                T.gemm(a, b, c, transpose_B=True)
                if read:
                    for i in T.Parallel(M):
                        r[i] += a[i, 0]
            T.copy(c, C)
            T.copy(r, R)

    return main


def hopper(program):
    from tilec.jit import compile

    return compile(program, target="sm_90a").artifact


def rounding_maps(made) -> set[str]:
    return {m.buffer.name for spec in made.cuda().kernels for m in spec.arguments if getattr(m, "combined", None) == "tfloat32"}


@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("dtype, read, expected", [("float32", False, {"A", "B"}), ("tfloat32", False, {"A", "B"}), ("float32", True, {"B"}), ("float16", False, set())])
def test_which_tiles_are_rounded_on_the_way(dtype, read, expected, threads):
    made = hopper(pipelined(64, 32, 128, getattr(T, dtype), read, threads=threads))
    assert rounding_maps(made) == expected


def test_rounded_products():
    """Numbers between those of tf32 come to the nearest, by whichever instruction."""
    a, b = (np.random.default_rng(k).standard_normal((n, 128)).astype(np.float32) for k, n in enumerate((32, 16)))
    made = hopper(pipelined(32, 16, 128, threads=128))
    assert "exact_ab" in made.text("cuda") and "cvt.rna" not in made.text("cuda")
    found = execute(made.thread_program, A=a, B=b)["C"]
    near = lambda x: ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)  # noqa: E731
    assert np.allclose(found, near(a).astype(np.float64) @ near(b).astype(np.float64).T, atol=2e-5)
    assert not np.allclose(found, a.astype(np.float64) @ b.astype(np.float64).T, atol=2e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("M, N, threads", [(32, 16, 128), (64, 32, 128)])
def test_rounded_products_on_the_gpu(M, N, threads):
    import torch
    from tilec.jit import compile

    torch.manual_seed(0)
    a, b = ((torch.randn(n, 128, device="cuda").view(torch.int32) & -0x1000 | 0x800).view(torch.float32) for n in (M, N))  # no ties
    c, r = torch.empty(M, N, device="cuda"), torch.empty(M, device="cuda")
    compile(pipelined(M, N, 128, threads=threads), target="sm_90a")(a, b, c, r)
    near = lambda x: ((x.view(torch.int32) + 0x1000) & -0x2000).view(torch.float32).double()  # noqa: E731
    torch.testing.assert_close(c.double(), near(a) @ near(b).T, atol=3e-5, rtol=0)


# -- chains of multiplications -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("M, N, K, two", [(32, 16, 64, True), (32, 16, 128, True), (32, 16, 56, False), (64, 64, 64, False)])
def test_even_and_odd_steps_add_up_apart(M, N, K, two):
    """Where a warp has one or two tiles, and steps enough."""
    a, b = (np.random.default_rng(k).integers(-4, 5, s).astype(np.float32) for k, s in enumerate(((M, K), (N, K))))
    made = artifact(widened_rows(M, N, K))
    assert ("c_odd" in made.text("cuda")) is two
    assert np.array_equal(execute(made.thread_program, A=a, B=b)["C"], a @ b.T)
