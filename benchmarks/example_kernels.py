"""The project's examples as tests that compile their kernels, for ``capture_kernels``: the same file serves both compilers."""
from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from compile_time import PROGRAMS, _load


@pytest.mark.parametrize("name", [*PROGRAMS, "quickstart_eager"])
def test_example(name: str) -> None:
    if name == "quickstart_eager":
        a = torch.empty((256, 256), dtype=torch.float16, device="cuda")
        _load(name).matmul_relu(a, a, block_M=64, block_N=64)
        return
    factory, arguments, target = PROGRAMS[name]
    if target == "sm_100a" and os.environ["CAPTURE_ARCH"] != target:
        pytest.skip(f"for {target}")
    getattr(_load(name), factory)(*arguments)
