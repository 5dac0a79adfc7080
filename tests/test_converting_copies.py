"""Copies of pipelined loops that convert: loaded into registers an iteration early, stored converted at the iteration's end."""
from __future__ import annotations

import hopper_kernels as kernels
import numpy as np
import pytest
from thread_interpreter import execute

T = kernels.T


def mixed(rows, columns, tile=64, stages=2, given="float16", threads=64, role=False):
    """Rows added up with weights; with ``role`` by threads 32 and up alone."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), given), S: T.Tensor((rows,), "float32"), C: T.Tensor((columns,), "float32")):
        with T.Kernel(1, threads=threads + 32 * role):
            s = T.alloc_shared((rows,), "float32")
            T.copy(S, s)
            if T.get_thread_binding() < 32 * role:
                pass
            else:
                for k in T.Pipelined(T.ceildiv(columns, tile), num_stages=stages):
                    a = T.alloc_shared((rows, tile), "float32")
                    mine = T.alloc_fragment((rows, tile), "float32")
                    c = T.alloc_fragment((tile,), "float32")
                    T.copy(A[0, k * tile], a)
                    T.copy(a, mine)
                    T.clear(c)
                    for i in T.serial(rows):
                        for j in T.Parallel(tile):
                            c[j] += mine[i, j] * s[i]
                    T.copy(c, C[k * tile])

    return main


def compiled(program):
    from tilec.jit import compile

    return compile(program, target="sm_90a").artifact


@pytest.mark.parametrize("role", [False, True])
@pytest.mark.parametrize("columns, stages", [(64, 2), (128, 2), (256, 3), (200, 2)])
def test_values(columns, stages, role):
    a, s = np.random.default_rng(0).integers(-4, 5, (4, columns)).astype(np.float32), np.arange(4, dtype=np.float32)
    made = compiled(mixed(4, columns, stages=stages, role=role))
    assert "converted at the iteration's end" in " ".join(map(str, made.decisions()))
    assert np.array_equal(execute(made.thread_program, A=a, S=s)["C"], s @ a)


@pytest.mark.parametrize("options", [{"given": "float32"}, {"tile": 4096, "columns": 8192}], ids=str)
def test_others_stay_as_they_are(options):
    """Copies of one type, and those that would take more registers than there are to spare."""
    made = compiled(mixed(4, **{"columns": 256, **options}))
    assert "converted at the iteration's end" not in " ".join(map(str, made.decisions()))


def test_the_text():
    """The tensor is read before the iteration's work and the stage is written behind it."""
    text = compiled(mixed(4, 256)).text("cuda")
    loop = text[text.index("for (int k = 0"):]
    assert loop.index("= reinterpret_cast<const uint") < loop.index("c[") < loop.rindex("__half2float") and loop.index("&A[") < loop.index("a[k % 2")
