"""Random valid programs: the interpreter, the CPU target and the CUDA text (and on a GPU the machine code) agree."""
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from random_programs import outcome  # noqa: E402
from tilec.runtime import gpu  # noqa: E402


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_the_cpu_computes_what_the_interpreter_does(first):
    pytest.importorskip("tvm")
    assert [(seed, found) for seed in range(first, first + 6) if (found := outcome(seed, "cpu"))] == []


@pytest.mark.parametrize("first", range(1000, 1040, 20))
def test_every_program_becomes_cuda(first):
    assert [(seed, found) for seed in range(first, first + 20) if (found := outcome(seed, "text"))] == []


@pytest.mark.gpu
@pytest.mark.skipif(not gpu.available(), reason="no GPU")
@pytest.mark.parametrize("first", range(2000, 2040, 10))
def test_the_gpu_computes_what_the_interpreter_does(first):
    assert [(seed, found) for seed in range(first, first + 10) if (found := outcome(seed, "cuda"))] == []
