"""Estimates of kernels from their tile programs: sane orders, what does not fit, and measured products of an H200."""
from __future__ import annotations

import json
from pathlib import Path

import hopper_kernels as kernels
import pytest
from tilec.jit import jit
from tilec.jit.autotune import autotune
from tilec.jit.candidates import configurations, meaning
from tilec.jit.errors import CompileError
from tilec.runtime.tile_model import NotEstimated, estimate
from tilec.target.chips import find

T = kernels.T
HOPPER = find("sm_90a")


def seconds(M, N, K, *tile, target=HOPPER, **options):
    return estimate(kernels.product(M, N, K, *tile, **options).program, target).seconds


def test_large_products_want_large_tiles_and_small_ones_enough_blocks():
    assert seconds(8192, 8192, 8192, 128, 256, 64, 3, 256) < seconds(8192, 8192, 8192, 128, 128, 64, 3, 256) < seconds(8192, 8192, 8192, 64, 64, 64, 3, 128)
    assert seconds(1024, 1024, 1024, 64, 128, 128, 3, 128) < seconds(1024, 1024, 1024, 128, 128, 64, 3, 256) < seconds(1024, 1024, 1024, 128, 256, 64, 3, 256)


def test_rounds_count():
    one, two = (estimate(kernels.product(128 * blocks, 256, 1024, 128, 256, 64, 3, 256).program, HOPPER) for blocks in (132, 133))
    assert (one.rounds, two.rounds) == (1, 2) and 1.6 < two.seconds / one.seconds < 2


def test_few_stages_wait_for_their_copies():
    assert seconds(4096, 4096, 4096, 128, 256, 128, 2, 256) > 1.2 * seconds(4096, 4096, 4096, 128, 256, 64, 3, 256)
    assert seconds(4096, 4096, 4096, 128, 128, 64, 1, 256) > 1.5 * seconds(4096, 4096, 4096, 128, 128, 64, 4, 256)


def test_time_grows_with_work():
    assert 1.8 < seconds(4096, 4096, 8192, 128, 256, 64, 3, 256) / seconds(4096, 4096, 4096, 128, 256, 64, 3, 256) < 2.2
    assert seconds(4096, 4096, 4096, 128, 256, 64, 3, 256, dtype="bfloat16") == seconds(4096, 4096, 4096, 128, 256, 64, 3, 256)


@pytest.mark.parametrize("tile, why", [((256, 256, 128, 3, 256), "bytes of shared memory"), ((256, 256, 32, 2, 128), "registers a thread")])
def test_what_does_not_fit(tile, why):
    with pytest.raises(NotEstimated, match=why):
        estimate(kernels.product(1024, 1024, 1024, *tile).program, HOPPER)


def test_what_is_not_known():
    with pytest.raises(NotEstimated):
        estimate(kernels.product(T.dynamic("m"), 1024, 1024).program, HOPPER)


def test_attention():
    def of(rows, columns, threads, causal=False):
        return estimate(kernels.attention(4, 32, 4096, 128, causal, rows, columns, 2, threads).program, HOPPER).seconds

    assert of(128, 128, 256) < of(64, 64, 128) and 0.4 < of(128, 128, 256, True) / of(128, 128, 256) < 0.7


def test_other_chips():
    times = {name: seconds(4096, 4096, 4096, 128, 128, 32, 3, 128, target=find(name)) for name in ("sm_80", "sm_89", "sm_90a", "sm_100a")}
    assert times["sm_90a"] < times["sm_80"] and all(1e-5 < t < 1e-2 for t in times.values())


def correlation(pairs):
    """Spearman's, of ranks."""
    ranks = [[sorted(values).index(v) for v in values] for values in zip(*pairs)]
    n = len(pairs)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(*ranks)) / (n * (n * n - 1))


@pytest.mark.parametrize("measured", json.loads((Path(__file__).parent / "measured_products.json").read_text())["products"], ids=lambda m: "x".join(map(str, m["size"])))
def test_measured_products(measured):
    """Microseconds of fp16 products on an H200 by tile: the model orders them alike, and one of its first four is as good as the best."""
    pairs = []
    for *tile, found in measured["tiles"]:
        pairs.append((seconds(*measured["size"], *tile), found))
    assert correlation(pairs) > 0.8
    assert min(found for _, found in sorted(pairs)[:4]) < 1.05 * min(found for _, found in pairs)


# -- choosing ----------------------------------------------------------------------------------------------------------------------
def test_names_of_tiles():
    assert [meaning(n) for n in ("block_M", "BLOCK_N", "bk", "num_stages", "threads", "tile_m")] == ["rows", "columns", "depth", "stages", "threads", "rows"]
    assert not any(meaning(n) for n in ("M", "N", "K", "dtype", "blocks", "heads", "block", "m", "batch"))
    made = configurations(["block_M", "block_K", "num_stages", "other"])
    assert made and all(set(c) == {"block_M", "block_K", "num_stages"} for c in made) and len({tuple(c.values()) for c in made}) == len(made)


def factory(**options):
    @autotune(**options)
    @jit(out_idx=[-1], target="sm_90a")
    def gemm(M, N, K, block_M=32, block_N=32, block_K=32, num_stages=0, threads=128):
        @T.prim_func
        def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float16")):
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
                a = T.alloc_shared((block_M, block_K), "float16")
                b = T.alloc_shared((block_K, block_N), "float16")
                c = T.alloc_fragment((block_M, block_N), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[by * block_M, k * block_K], a)
                    T.copy(B[k * block_K, bx * block_N], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * block_M, bx * block_N])

        return main

    return gemm


def test_a_kernel_without_tiles_gets_good_ones_without_running():
    gemm = factory()
    large, small = gemm(8192, 8192, 8192), gemm(1024, 1024, 1024)
    assert (large.config["block_M"], large.config["block_N"]) in ((128, 256), (256, 128)) and large.config["num_stages"] >= 3
    assert small.config["block_M"] * small.config["block_N"] <= 64 * 128 and small.config["threads"] >= 128
    assert gemm(1024, 1024, 1024) is small and small.latency > 0
    assert "wgmma" in large.get_kernel_source()


def test_what_is_given_stays():
    kernel = factory()(4096, 4096, 4096, block_N=64, num_stages=3)
    assert set(kernel.config) == {"block_M", "block_K", "threads"} and "m64n64k16" in kernel.get_kernel_source()
    assert factory()(512, 512, 512, 64, 64, 32, 2, 128).config is None


def test_the_model_orders_given_configurations():
    tiles = [{"block_M": m, "block_N": n, "block_K": 64, "num_stages": 3, "threads": 256} for m, n in ((64, 64), (128, 256), (128, 128))]
    gemm = factory(configs=tiles, top=1)
    assert [c["block_N"] for c, _ in gemm.ranked(8192, 8192, 8192)] == [256, 128, 64]
    assert gemm(8192, 8192, 8192).config == tiles[1]


def test_nothing_that_fits():
    with pytest.raises(CompileError, match="no tiles were found for gemm"):
        factory(configs=[{"block_M": 512, "block_N": 512, "block_K": 64, "num_stages": 4, "threads": 128}], top=1)(1024, 1024, 1024)
