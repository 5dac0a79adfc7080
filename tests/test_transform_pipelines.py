"""Multi-stage pipelines: any number of stages against any trip count, tails and ragged tiles included."""
from __future__ import annotations

import hand_programs
import numpy as np
import pytest
from thread_interpreter import execute
from transform_support import device_functions, lowered, numbers


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("K", [16, 40, 80])
@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
def test_pipelined_gemm(stages, K, target):
    program = lowered(hand_programs.gemm(40, 24, K, 32, 16, 16, num_stages=stages, threads=32), target)
    assert any("cp_async" in name for name in device_functions(program)) == (target == "sm_80")
    a, b = numbers((40, K), "float16"), numbers((K, 24), "float16", 1)
    got = execute(program, A=a, B=b)["C"]
    wanted = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("block_N, more", [(32, False), (256, True)])
def test_another_stage_where_it_costs_no_block(block_N, more):
    """Small tiles leave room for several blocks, which is worth more; of large ones one block fits either way."""
    program = lowered(hand_programs.gemm(256, 256, 256, 128, block_N, 64, num_stages=2, threads=128), "sm_80")
    assert ("tile_cp_async_wait_1" in device_functions(program)) == more
    a, b = numbers((256, 256), "float16"), numbers((256, 256), "float16", 1)
    if more:
        np.testing.assert_array_equal(execute(program, A=a, B=b)["C"], (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16))


PRODUCT = """import tilelang
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor((1000, KA), "float16"), B: T.Tensor((KA, NB), "float16"), C: T.Tensor((1000, NB), "float32")):
    with T.Kernel(T.ceildiv(NB, 64), T.ceildiv(1000, 128), threads=128) as (bx, by):
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((128, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(KA, 32), num_stages=3):
            T.copy(A[by * 128, k * 32], a)
            T.copy(B[k * 32, bx * 64], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 64])
"""


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("inner, columns, plain", [(300, 777, "ab"), (320, 777, "b"), (320, 776, "")])
def test_explain_says_of_copies_what_the_cuda_text_does(inner, columns, plain, chip):
    import re

    from tilec.evaluate import analyse, instantiate
    from tilec.pipeline import compile_program
    from tilec.source.file import SourceFile
    from tilec.target import chips

    found = analyse(SourceFile("k.py", PRODUCT.replace("KA", str(inner)).replace("NB", str(columns))))
    artifact = compile_program(instantiate(found, found.kernels[0], found.kernels[0].instances[0]), chips.find(chip))
    cuda, told = artifact.text("cuda"), {str(d) for d in artifact.decisions()}
    text = "\n".join(sorted(told))
    for line, name in ((13, "a"), (14, "b")):
        assert any(t.startswith(f"line {line}: copy to {name}: loads and stores by all threads") for t in told) == (name in plain), text
    assert bool(re.search(r"tile_cp_async_(4|8|16)(_if)?\(", cuda)) == (plain != "ab" and (plain == "b" or chip == "sm_80")), text  # else bulk copies
    if plain == "ab":
        assert "cp.async by all threads" not in text and (chip != "sm_80" or "pipelined loop: loads and stores by all threads, 3 stages (none of its copies" in text)
    assert "300 bytes" not in text and ("A is 600 bytes, no multiple of 16" in text) == (chip == "sm_90a" and inner == 300)
