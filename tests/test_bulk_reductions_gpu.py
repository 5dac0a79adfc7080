"""Atomic updates of whole tiles by the copy engine, on a GPU: against torch, at edges, in many blocks at once."""
from __future__ import annotations

import pytest
from emit_support import prim
from test_bulk_reductions import CASES, text

torch = pytest.importorskip("torch")

from tilec.runtime import gpu  # noqa: E402
from transform_support import on_gpu  # noqa: E402

pytestmark = pytest.mark.gpu
if not gpu.available() or torch.cuda.get_device_capability()[0] < 9:
    pytest.skip("needs a GPU with a copy engine", allow_module_level=True)


def kernel(signature, body):
    return on_gpu(prim(signature, body), "bulk tensor reduction")


def tensor(shape, dtype):
    return torch.randint(-8, 9, shape, device="cuda").to(getattr(torch, dtype))


@pytest.mark.parametrize("case", [*CASES, {"dtype": "uint32"}, {"dtype": "uint64", "n": 16}, {"dtype": "int64", "kind": "max", "n": 16}], ids=str)
def test_tiles(case):
    dtype, M, N = case.get("dtype", "float32"), case.get("M", 100), case.get("N", 96)
    if dtype.startswith("uint"):  # torch adds no such tensors: the same bits with a sign
        a, c = (tensor(s, dtype[1:]).abs() for s in ((2, M, N), (M, N)))
        given = (a.view(getattr(torch, dtype)), c.clone().view(getattr(torch, dtype)))
    else:
        a, c = tensor((2, M, N), dtype), tensor((M, N), dtype)
        given = (a, c.clone())
    kernel(*text(**case))(*given)
    combine = {"add": torch.add, "max": torch.maximum, "min": torch.minimum}[case.get("kind", "add")]
    assert torch.equal(given[1].view(c.dtype), combine(combine(c, a[0]), a[1]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_many_blocks_on_the_same_tile(dtype):
    body = f"""
    with T.Kernel(64, threads=128) as bz:
        tile = T.alloc_shared((64, 64), "{dtype}")
        for r in T.serial(8):
            T.copy(A[bz * 8 + r, 0, 0], tile)
            T.atomic_add(C[0, 0], tile, use_tma=True)
    """
    run = kernel(f'A: T.Tensor((512, 50, 40), "{dtype}"), C: T.Tensor((50, 40), "{dtype}")', body)
    a = torch.randint(-1, 2, (512, 50, 40), device="cuda").to(getattr(torch, dtype))
    wanted = a.double().sum(0)
    for _ in range(50):
        c = torch.zeros(50, 40, device="cuda", dtype=a.dtype)
        run(a, c)
        assert torch.equal(c.double(), wanted)


def test_denormal_floats_are_added_as_they_are():
    run = kernel('A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")', """
    with T.Kernel(1, threads=128) as bx:
        tile = T.alloc_shared((32, 32), "float32")
        T.copy(A, tile)
        T.atomic_add(C, tile, use_tma=True)
    """)
    a, c = torch.full((32, 32), 1e-40, device="cuda"), torch.full((32, 32), 2e-40, device="cuda")
    run(a, c)
    assert torch.equal(c.cpu(), torch.full((32, 32), 1e-40) + torch.full((32, 32), 2e-40)) and c.abs().min() > 0


def test_axes_between_rows_and_columns_and_run_time_rows():
    from emit_support import program

    made = program('''m = T.dynamic("m")
@T.prim_func
def kernel(A: T.Tensor((2, m, 3, 64), "float32"), C: T.Tensor((2, m, 3, 64), "float32")):
    with T.Kernel(3, 2, threads=128) as (h, b):
        tile = T.alloc_shared((32, 64), "float32")
        for k in T.serial(T.ceildiv(m, 32)):
            T.copy(A[b, k * 32 : (k + 1) * 32, h, :], tile)
            T.atomic_add(C[b, k * 32 : (k + 1) * 32, h, :], tile, use_tma=True)
''')
    run = on_gpu(made)
    for m in (70, 1, 32, 65):
        a, c = (torch.randint(-8, 9, (2, m, 3, 64), device="cuda").float() for _ in range(2))
        wanted = a + c
        run(a, c)
        assert torch.equal(c, wanted)


def test_the_last_block_sees_what_the_others_added():
    """A counter tells the last block that all tiles were added; it reads them."""
    run = kernel('A: T.Tensor((32, 64, 64), "float32"), C: T.Tensor((64, 64), "float32"), N: T.Tensor((1,), "int32")', """
    with T.Kernel(32, threads=128) as bx:
        tile = T.alloc_shared((64, 64), "float32")
        T.copy(A[bx, 0, 0], tile)
        T.atomic_add(C, tile, use_tma=True)
        T.atomic_add(N[0], 1)
    """)
    a = torch.randint(-8, 9, (32, 64, 64), device="cuda").float()
    c, n = torch.zeros(64, 64, device="cuda"), torch.zeros(1, device="cuda", dtype=torch.int32)
    run(a, c, n)
    assert torch.equal(c, a.sum(0)) and n.item() == 32


@pytest.mark.parametrize("asked", [True, False])
def test_a_product_whose_parts_are_added(asked):
    """Split along K: copying warps beside the reduction; groups of 64 threads elsewhere have nothing to do with it."""
    M, N, K, parts = 500, 520, 1024, 4
    made = prim(f'A: T.Tensor(({M}, {K}), "float16"), B: T.Tensor(({K}, {N}), "float16"), C: T.Tensor(({M}, {N}), "float32")', f"""
    with T.Kernel({-(-N // 128)}, {-(-M // 128)}, {parts}, threads=256) as (bx, by, bz):
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        out = T.alloc_shared((128, 128), "float32")
        sums = T.alloc_fragment((128, 128), "float32")
        T.clear(sums)
        for k in T.Pipelined({K // parts // 64}, num_stages=2):
            T.copy(A[by * 128, bz * {K // parts} + k * 64], a)
            T.copy(B[bz * {K // parts} + k * 64, bx * 128], b)
            T.gemm(a, b, sums)
        T.copy(sums, out)
        T.atomic_add(C[by * 128, bx * 128], out, use_tma={asked})
    """)
    run = on_gpu(made)
    a, b = (torch.randint(-4, 5, s, device="cuda").half() for s in ((M, K), (K, N)))
    for _ in range(20):
        c = torch.zeros(M, N, device="cuda")
        run(a, b, c)
        assert torch.equal(c, a.float() @ b.float())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("N", [96, 95, 90])
@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_threads_add_the_same(dtype, N, scope):
    signature, body = text(dtype=dtype, N=N, scope=scope)
    run = on_gpu(prim(signature, body.replace(", use_tma=True", "")))
    a, c = tensor((2, 100, N), dtype), tensor((100, N), dtype)
    wanted = c + a[0] + a[1]
    run(a, c)
    assert torch.equal(c, wanted)
