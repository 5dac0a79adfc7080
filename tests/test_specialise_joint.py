"""``tl.disable_warp_specialized``: the copy engine brings the tiles of pipelined loops all the same, and a computing thread starts it."""
from __future__ import annotations

import hopper_kernels as kernels
import numpy as np
import pytest
from role_machine import Fault, simulate
from thread_interpreter import execute
from tilec.ir.stmt import TileOp

T = kernels.T
SETTING = {"tl.disable_warp_specialized": True}


def compiled(program):
    from tilec.jit import compile

    return compile(program, target="sm_90a", pass_configs=SETTING).artifact


def joint(program):
    artifact = compiled(program)
    assert "one of the computing threads starts the copies" in " ".join(map(str, artifact.decisions()))
    return artifact


def masked_decode(heads, length, splits, dim=64, rows=4, block_M=64, block_N=64, stages=2):
    """A few queries by many keys, of which a mask leaves some: the keys are split over blocks."""
    scale, each = (1.0 / dim) ** 0.5 * 1.44269504, length // splits

    @T.prim_func
    def main(Q: T.Tensor((heads, dim), "float16"), K: T.Tensor((length, dim), "float16"), V: T.Tensor((length, dim), "float16"), mask: T.Tensor((length,), "uint8"),
             part: T.Tensor((splits, heads, dim), "float32"), sums: T.Tensor((splits, heads), "float32")):
        with T.Kernel(heads // rows, splits, threads=128) as (bx, by):
            q = T.alloc_shared([block_M, dim], "float16")
            k_tile = T.alloc_shared([block_N, dim], "float16")
            v_tile = T.alloc_shared([block_N, dim], "float16")
            s = T.alloc_fragment([block_M, block_N], "float32")
            p = T.alloc_fragment([block_M, block_N], "float16")
            kept = T.alloc_fragment([block_N], "uint8")
            o = T.alloc_fragment([block_M, dim], "float32")
            total = T.alloc_fragment([block_M], "float32")
            one = T.alloc_fragment([block_M], "float32")
            T.copy(Q[bx * rows:bx * rows + block_M, :], q)
            T.fill(o, 0)
            T.fill(total, 0)
            for k in T.Pipelined(T.ceildiv(each, block_N), num_stages=stages):
                T.copy(K[by * each + k * block_N:by * each + (k + 1) * block_N, :], k_tile)
                T.copy(mask[by * each + k * block_N:by * each + (k + 1) * block_N], kept)
                T.clear(s)
                T.gemm(q, k_tile, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    s[i, j] = T.if_then_else(kept[j] != 0, T.exp2(s[i, j] * scale), 0)
                T.reduce_sum(s, one, dim=1)
                for i in T.Parallel(block_M):
                    total[i] += one[i]
                T.copy(s, p)
                T.copy(V[by * each + k * block_N:by * each + (k + 1) * block_N, :], v_tile)
                T.gemm(p, v_tile, o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                if i < rows:
                    sums[by, bx * rows + i] = total[i]
            for i, j in T.Parallel(block_M, dim):
                if i < rows:
                    part[by, bx * rows + i, j] = o[i, j]

    return main


PROGRAMS = {
    "product": lambda: kernels.product(256, 256, 512), "two stages": lambda: kernels.product(256, 256, 512, stages=2), "four stages": lambda: kernels.product(256, 256, 512, stages=4, block_K=32),
    "as many iterations as stages": lambda: kernels.product(64, 64, 128, stages=2), "one iteration": lambda: kernels.product(64, 8, 8),
    "attention": lambda: kernels.attention(1, 2, 512, 64, False), "odd": lambda: kernels.attention(1, 2, 200, 64, False), "causal": lambda: kernels.attention(1, 2, 512, 128, True, 128, 128, 2, 256),
    "weights in shared": lambda: kernels.weights_in_shared(512, 2, 64), "decode": lambda: masked_decode(32, 1024, 4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_and_copy_engine_agree(name):
    simulate(joint(PROGRAMS[name]()).thread_program)


def test_run_time_rows():
    made = joint(kernels.product(kernels.T.dynamic("m"), 256, 256)).thread_program
    for rows in (1, 129, 300):
        simulate(made, m=rows)


@pytest.mark.parametrize("left_out", ["mbarrier_wait_parity", "wgmma_wait"])
def test_the_simulation_notices_what_is_missing(left_out, monkeypatch):
    from dataclasses import replace

    from tilec.transform.rewrite import map_children
    from tilec.transform.specialise.joint import Joint

    plain = Joint.launch

    def without(self):
        def visit(body):
            return tuple(map_children(s, visit) for s in body if not (isinstance(s, TileOp) and s.op == left_out))

        made = plain(self)
        return replace(made, body=visit(made.body))

    monkeypatch.setattr(Joint, "launch", without)
    program = joint(kernels.product(256, 256, 512)).thread_program
    with pytest.raises(Fault):
        simulate(program, seeds=20)


def numbers(*shape):
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("M, N, K, options", [
    (64, 64, 64, {"block_M": 64, "block_N": 64, "block_K": 16}), (100, 72, 80, {"block_M": 64, "block_N": 64, "block_K": 32, "stages": 2}),
    (64, 64, 96, {"block_M": 32, "block_N": 64, "block_K": 32, "trans_B": True}), (40, 72, 48, {"block_M": 32, "block_N": 32, "block_K": 16}),
], ids=str)
def test_products(M, N, K, options):
    a, b = numbers(M, K), numbers(K, N)
    found = execute(joint(kernels.product(M, N, K, threads=128, **options)).thread_program, A=a, B=b.T.copy() if options.get("trans_B") else b)["C"]
    assert np.array_equal(found, a @ b)


def test_decoding():
    heads, length, splits, dim = 8, 384, 2, 64
    q, k, v = (np.random.default_rng(i).standard_normal((n, dim)).astype(np.float16).astype(np.float32) for i, n in enumerate((heads, length, length)))
    mask = np.random.default_rng(9).integers(0, 2, (length,)).astype(np.uint8)
    found = execute(joint(masked_decode(heads, length, splits, dim)).thread_program, Q=q, K=k, V=v, mask=mask)
    weights = np.where(mask != 0, np.exp(q @ k.T / dim**0.5), 0).reshape(heads, splits, -1)
    assert np.allclose(found["sums"], weights.sum(2).T, rtol=1e-3)
    assert np.allclose(found["part"], np.einsum("hsk,skd->shd", weights, v.reshape(splits, -1, dim)), atol=2e-2, rtol=2e-3)


def test_the_text():
    """As many threads as written, one barrier an iteration, no copies by threads, no fences for what the copy engine brought."""
    text = joint(masked_decode(32, 1024, 4)).text("cuda")
    kernel = text[text.index("__global__"):]
    loop = kernel[kernel.index("for (int k = 0"):]
    loop = loop[:loop.index("\n  }\n")]
    assert "__launch_bounds__(128)" in text and "setmaxnreg" not in text
    assert loop.count("tile_sync_threads") == 1 and "cp_async" not in text and "tile_fence_proxy_async" not in loop
    assert loop.count("tile_tma_load") == 2 and loop.count("tile_mbarrier_wait(") == 2
    assert kernel.index("tile_tma_load") < kernel.index("tile_mbarrier_wait(") < kernel.index("for (int k = 0")


@pytest.mark.parametrize("program, why", [
    (kernels.product(256, 256, 512, stages=1), "it has one stage"), (kernels.persistent(1024, 1024, 256), "it runs several times"),
    (kernels.product(512, 512, 512, disable_tma=True), "disable_tma is given"), (kernels.product(512, 500, 508), "no multiple of 16"),
], ids=["one stage", "nested", "asked", "stride"])
def test_what_it_cannot_do_is_done_as_before(program, why):
    made = compiled(program)
    assert why in " ".join(map(str, made.decisions())) and "cp.async.bulk" not in made.text("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"stages": 2}, {"trans_B": True}, {"dtype": "bfloat16", "out": "float32"}], ids=str)
def test_products_on_the_gpu(options):
    import torch
    from tilec.jit import compile

    dtype = getattr(torch, options.get("dtype", "float16"))
    a, b = (torch.randint(-4, 5, s, device="cuda").to(dtype) for s in ((500, 512), (512, 256)))
    c = torch.empty(500, 256, device="cuda", dtype=getattr(torch, options.get("out", "float16")))
    compile(kernels.product(500, 256, 512, **options), target="sm_90a", pass_configs=SETTING)(a, b.T.contiguous() if options.get("trans_B") else b, c)
    assert torch.equal(c.float(), (a.float() @ b.float()).to(c.dtype).float())


@pytest.mark.gpu
def test_decoding_on_the_gpu():
    import torch
    from tilec.jit import compile

    heads, length, splits, dim = 32, 8192, 8, 64
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, dim, device="cuda", dtype=torch.float16) for n in (heads, length, length))
    mask = torch.randint(0, 2, (length,), device="cuda", dtype=torch.uint8)
    part, sums = torch.empty(splits, heads, dim, device="cuda"), torch.empty(splits, heads, device="cuda")
    kernel = compile(masked_decode(heads, length, splits, dim), target="sm_90a", pass_configs=SETTING)
    weights = torch.where(mask != 0, torch.exp(q.float() @ k.float().T / dim**0.5), 0.0)
    wanted = weights @ v.float() / weights.sum(1, keepdim=True)
    for _ in range(100):
        part.zero_()
        kernel(q, k, v, mask, part, sums)
        torch.testing.assert_close(part.sum(0) / sums.sum(0)[:, None], wanted, rtol=1e-2, atol=1e-2)
