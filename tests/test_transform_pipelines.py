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
