"""Registers that a wgmma must find when its kernel starts: widths of instructions, blocks a multiprocessor, and ptxas's verdict."""
from __future__ import annotations

import re

import hopper_kernels as kernels
import pytest
from tilec.build.nvcc import can_compile
from tilec.jit import compile
from tilec.target.chips import find
from tilec.transform.matrix.wgmma_registers import at_start, needed, widest

T = kernels.T
TILES = [(64, 256, 128), (192, 256, 384), (256, 256, 512), (128, 256, 256), (448, 192, 896)]


def artifact(block_M, block_N, threads, blocks=None):
    """A product of tiles that all start on their own; ``blocks``: what T.annotate_min_blocks_per_sm asks for."""
    @T.prim_func
    def main(A: T.Tensor((block_M * 64, 256), "float16"), B: T.Tensor((256, block_N * 64), "float16"), C: T.Tensor((block_M * 64, block_N * 64), "float16")):
        with T.Kernel(64, 64, threads=threads) as (bx, by):
            if blocks is not None:
                T.annotate_min_blocks_per_sm(blocks)
            a, b = T.alloc_shared((block_M, 32), "float16"), T.alloc_shared((32, block_N), "float16")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[by * block_M, k * 32], a)
                T.copy(B[k * 32, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])

    return compile(main, target="sm_90a").artifact


def bounds(text):
    threads, _, blocks = re.search(r"__launch_bounds__\((\d+)(, )?(\d*)\)", text).groups()
    return int(threads), int(blocks or 1)


def test_what_an_instruction_needs():
    assert (needed(256, "float32"), needed(256, "float16"), needed(64, "int32")) == (158, 94, 62)
    assert (at_start(256), at_start(128, 2), at_start(384)) == (168, 128, 128)
    assert widest(256, "float32") >= 256 > widest(384, "float32") >= 128 > widest(640, "float32") >= 64


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_the_kernel_starts_with_enough(tile):
    text = artifact(*tile).text("cuda")
    threads, blocks = bounds(text)
    widths = [int(n) for n in re.findall(r"m64n(\d+)k16", text)]
    assert widths and max(needed(n, "float32") for n in widths) <= 65536 // (threads * blocks)


@pytest.mark.skipif(not can_compile(find("sm_90a")), reason="needs a CUDA compiler")
@pytest.mark.parametrize("tile", TILES[:2], ids=str)
def test_ptxas_takes_it(tile):
    assert artifact(*tile).cubin().data


def test_blocks_that_leave_too_little_are_not_asked_for():
    many = artifact(128, 128, 256, blocks=3)
    assert bounds(many.text("cuda")) == (384, 1)
    assert any("1, not the 3 asked for" in str(d) and "wgmma needs 94" in str(d) for d in many.decisions())
    two = artifact(64, 64, 128, blocks=3)
    assert bounds(two.text("cuda")) == (256, 3) and not any("asked for" in str(d) and "multiprocessor" in str(d) for d in two.decisions())
