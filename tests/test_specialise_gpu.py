"""Warps that only copy, on a Hopper GPU: products and attention against torch, edges, many launches."""
from __future__ import annotations

import hopper_kernels as kernels
import pytest

torch = pytest.importorskip("torch")

from tilec.jit import compile  # noqa: E402
from tilec.runtime import gpu  # noqa: E402

pytestmark = pytest.mark.gpu
ON_HOPPER = gpu.available() and torch.cuda.get_device_capability()[0] == 9
if not ON_HOPPER:
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


def product(a, b, trans_B=False, **options):
    M, K = a.shape
    N = b.shape[0] if trans_B else b.shape[1]
    kernel = compile(kernels.product(M, N, K, trans_B=trans_B, dtype=str(a.dtype).removeprefix("torch."), **options), out_idx=-1, target="sm_90a")
    assert "copying warp" in " ".join(map(str, kernel.artifact.decisions()))
    return kernel(a, b)


@pytest.mark.parametrize("M, N, K, options", [
    (512, 512, 512, {}), (512, 512, 512, {"threads": 128}), (768, 512, 512, {"block_M": 192, "threads": 384}), (512, 1024, 512, {"block_N": 256, "out": "float32"}),
    (500, 504, 520, {}), (500, 504, 520, {"trans_B": True, "out": "float32"}), (64, 8, 8, {}), (4096, 4096, 256, {"block_N": 256}), (4000, 4104, 264, {"swizzle": 3}),
    (2048, 4096, 512, {"threads": 128, "block_M": 64, "stages": 4}), (512, 512, 512, {"stages": 1}), (512, 512, 512, {"block_K": 32}), (512, 512, 512, {"block_K": 16}),
    (512, 512, 512, {"block_K": 128, "stages": 2}), (4096, 4096, 512, {"block_M": 256, "threads": 256}),
], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_products(M, N, K, options, dtype):
    if dtype == torch.bfloat16 and options.get("out", "") != "float32":
        options = {**options, "out": "bfloat16"}
    torch.manual_seed(0)
    a = torch.randn(M, K, device="cuda").to(dtype)
    b = torch.randn((N, K) if options.get("trans_B") else (K, N), device="cuda").to(dtype)
    wide = a.double() @ (b.double().T if options.get("trans_B") else b.double())
    torch.testing.assert_close(product(a, b, **options).double(), wide, rtol=2e-2, atol=2e-2 * K**0.5)


@pytest.mark.parametrize("options", [
    {"trans_A": True}, {"trans_A": True, "trans_B": True, "block_M": 64, "threads": 128}, {"policy": "FullCol"}, {"policy": "FullCol", "trans_B": True, "block_M": 64},
    {"trans_A": True, "policy": "FullRow", "block_K": 32}, {"block_N": 24, "trans_B": True}, {"block_M": 32, "threads": 128}, {"block_N": 192}, {"block_M": 32, "block_K": 32, "threads": 128},
], ids=str)
def test_products_of_other_orders_and_splits(options):
    torch.manual_seed(0)
    M, N, K = 512, 576, 448
    a = torch.randn((K, M) if options.get("trans_A") else (M, K), device="cuda").half()
    b = torch.randn((N, K) if options.get("trans_B") else (K, N), device="cuda").half()
    wanted = (a.double().T if options.get("trans_A") else a.double()) @ (b.double().T if options.get("trans_B") else b.double())
    kernel = compile(kernels.product(M, N, K, **options), out_idx=-1, target="sm_90a")
    assert "copying warp" in " ".join(map(str, kernel.artifact.decisions()))
    torch.testing.assert_close(kernel(a, b).double(), wanted, rtol=2e-2, atol=0.3)


def test_products_of_bytes():
    a = torch.randint(-9, 9, (256, 512), device="cuda", dtype=torch.int8)
    b = torch.randint(-9, 9, (384, 512), device="cuda", dtype=torch.int8)
    kernel = compile(kernels.product(256, 384, 512, dtype="int8", sums="int32", out="int32", trans_B=True, block_K=128), out_idx=-1, target="sm_90a")
    assert torch.equal(kernel(a, b).cpu(), (a.cpu().int() @ b.cpu().int().T))


def test_products_of_eight_bit_floats():
    a, b = (torch.randn(n, 512, device="cuda").to(torch.float8_e4m3fn) for n in (256, 384))
    kernel = compile(kernels.product(256, 384, 512, dtype="float8_e4m3fn", out="float32", trans_B=True, block_K=128), out_idx=-1, target="sm_90a")
    torch.testing.assert_close(kernel(a, b).double(), a.double() @ b.double().T, rtol=1e-2, atol=0.5)


def test_products_of_single_floats():
    a, b = (torch.randn(n, 256, device="cuda") for n in (256, 128))
    kernel = compile(kernels.product(256, 128, 256, dtype="float32", out="float32", trans_B=True, block_K=32), out_idx=-1, target="sm_90a")
    torch.testing.assert_close(kernel(a, b).double(), a.double() @ b.double().T, rtol=2e-2, atol=0.1)


def test_a_loop_over_tiles_in_the_text():
    a, b = (torch.randn(1024, 1024, device="cuda").half() for _ in range(2))
    for blocks in (1, 7, 64):
        kernel = compile(kernels.persistent(1024, 1024, 1024, blocks), out_idx=-1, target="sm_90a")
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=0.1)


def test_a_vector_beside_the_tiles():
    a, b = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
    s = torch.rand(8, 512, device="cuda")
    wanted = sum((a[:, 64 * k:64 * k + 64].float() @ b[64 * k:64 * k + 64].float()) * s[k] for k in range(8))
    found = compile(kernels.scaled(512, 512, 512), out_idx=-1, target="sm_90a")(a, b, s)
    torch.testing.assert_close(found.float(), wanted, rtol=1e-2, atol=0.1)


@pytest.mark.parametrize("batch, heads, length, dim, causal, options", [
    (1, 2, 256, 64, False, {}), (2, 3, 200, 64, False, {}), (1, 2, 256, 64, True, {}), (2, 2, 512, 128, True, {"block_M": 128, "block_N": 128, "threads": 256}),
    (4, 16, 1024, 128, False, {"block_M": 128, "block_N": 128, "threads": 256}), (1, 2, 64, 64, False, {}), (2, 16, 1024, 128, True, {"block_M": 128, "threads": 256}),
    (1, 4, 1000, 128, True, {"block_M": 128, "block_N": 128, "threads": 256}), (1, 2, 512, 64, False, {"stages": 1}), (1, 2, 512, 64, False, {"stages": 3}),
    (4, 40, 512, 64, False, {}),
], ids=str)
def test_attention(batch, heads, length, dim, causal, options):
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, length, heads, dim, device="cuda").half() for _ in range(3))
    wanted = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2).double() for x in (q, k, v)), is_causal=causal).transpose(1, 2)
    found = compile(kernels.attention(batch, heads, length, dim, causal, **options), out_idx=-1, target="sm_90a")(q, k, v)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=4e-3)


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_one_tile_for_both_products(stages):
    q, k = torch.randn(4, 512, 128, device="cuda").half() * 0.1, torch.randn(512, 128, device="cuda").half() * 0.1
    p = torch.exp(q.double() @ k.double().T)
    wanted = (p / p.sum(-1, keepdim=True)) @ k.double()
    found = compile(kernels.shared_values(512, 4, 128, stages=stages), out_idx=-1, target="sm_90a")(q, k)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize("options", [{}, {"policy": "FullRow", "threads": 128}, {"stages": 1}, {"stages": 3, "policy": "FullRow", "threads": 128}], ids=str)
def test_weights_through_shared_memory(options):
    q, k, v = (torch.randn(2, 512, 64, device="cuda").half() * 0.3, torch.randn(512, 64, device="cuda").half() * 0.3, torch.randn(512, 64, device="cuda").half())
    p = torch.exp(q.double() @ k.double().T)
    wanted = (p / p.sum(-1, keepdim=True)) @ v.double()
    found = compile(kernels.weights_in_shared(512, 2, 64, **options), out_idx=-1, target="sm_90a")(q, k, v)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-2, atol=4e-3)


def test_a_tensor_that_moves_is_described_anew():
    kernel = compile(kernels.product(512, 512, 512), out_idx=-1, target="sm_90a")
    for _ in range(3):
        a, b = (torch.randn(512, 512, device="cuda").half() for _ in range(2))
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=0.1)


def test_many_launches_give_the_same_bits():
    a, b = (torch.randn(2048, 2048, device="cuda").half() for _ in range(2))
    kernel = compile(kernels.product(2048, 2048, 2048, block_N=256), out_idx=-1, target="sm_90a")
    first = kernel(a, b)
    assert torch.equal(first, a @ b) or torch.allclose(first.float(), (a @ b).float(), rtol=1e-2, atol=0.5)
    outs = torch.stack([kernel(a, b).view(torch.int16).sum(dtype=torch.int64) for _ in range(1000)])
    assert int((outs != first.view(torch.int16).sum(dtype=torch.int64)).sum()) == 0


def test_run_time_rows():
    kernel = compile(kernels.product(kernels.T.dynamic("m"), 512, 512), out_idx=-1, target="sm_90a")
    assert "copying warp" in " ".join(map(str, kernel.artifact.decisions()))
    b = torch.randn(512, 512, device="cuda").half()
    for rows in (1, 100, 128, 1000, 20000):
        a = torch.randn(rows, 512, device="cuda").half()
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-2, atol=0.1)


@pytest.mark.parametrize("stages, held", [(1, "tensor"), (2, "tensor"), (3, "fragment"), (2, "local")])
def test_iterations_left_out(stages, held):
    a, b = (torch.randn(s, device="cuda").half() for s in ((512, 512), (512, 512)))
    mask = torch.rand((4, 4, 8), device="cuda") < 0.5
    kernel = compile(kernels.block_sparse(512, 512, 512, stages=stages, held=held), target="sm_90a")
    c = torch.full((512, 512), torch.nan, device="cuda")
    kernel(a, b, mask, c)
    wide = mask.repeat_interleave(128, 0).repeat_interleave(64, 2)
    wanted = torch.cat([(a.float() * wide[:, x]) @ b[:, 128 * x:128 * x + 128].float() for x in range(4)], 1)
    torch.testing.assert_close(c, wanted, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (64, 96, 32), (128, 128, 128)], ids=str)
def test_parts_of_tiles(M, N, K, trans_A, trans_B):
    a, b = torch.randn((M, K), device="cuda").half(), torch.randn((K, N), device="cuda").half()
    c = torch.full((M, N), torch.nan, device="cuda")
    compile(kernels.parts_of_tiles(M, N, K, trans_A, trans_B), target="sm_90a")(a.T.contiguous() if trans_A else a, b.T.contiguous() if trans_B else b, c)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-3, atol=1e-2)
