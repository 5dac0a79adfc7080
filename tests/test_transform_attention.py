"""FlashAttention, lowered and run thread by thread: matrix products, reductions and pipelining together."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from thread_interpreter import execute
from tilec.evaluate import analyse, instantiate
from tilec.source import SourceFile
from transform_support import lowered, numbers

EXAMPLE = Path(__file__).parent.parent / "examples" / "flash_attention.py"


def attention(instance: str, target: str):
    analysis = analyse(SourceFile(str(EXAMPLE), EXAMPLE.read_text()), instances=(instance,))
    kernel = analysis.kernels[0]
    wanted = next(i for i in kernel.instances if i.text.replace(" ", "") == instance.replace(" ", ""))
    return lowered(instantiate(analysis, kernel, wanted), target)


def reference(q, k, v, causal: bool):
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("stages, threads", [(1, 32), (2, 64)])
def test_flash_attention(causal, stages, threads):
    rows = threads // 2
    program = attention(f"flash_attention(1, 1, {2 * rows}, 16, {causal}, {rows}, 16, {stages}, {threads})", "sm_80")
    q, k, v = (numbers((1, 2 * rows, 1, 16), "float16", seed) for seed in range(3))
    got = execute(program, Q=q, K=k, V=v)["O"]
    wanted = reference(*(x.astype(np.float64) for x in (q, k, v)), causal)
    np.testing.assert_allclose(got, wanted, atol=4e-3, rtol=4e-3)
