"""``tl.disable_thread_storage_sync``: what single threads do with shared memory the program orders itself; tile operators are waited for as ever."""
from __future__ import annotations

import hopper_kernels as kernels
import pytest

T = kernels.T
SETTING = "tl.disable_thread_storage_sync"


def histogram(n, threads=128):
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((threads,), "int32"), kept: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            counts = T.alloc_shared((threads,), "int32")
            found = T.alloc_shared((1,), "int32")
            list_of = T.alloc_shared((n,), "int32")
            place = T.alloc_var("int32")
            T.fill(counts, 0)
            T.fill(found, 0)
            T.sync_threads()
            for s in T.serial(n // threads):
                if A[s * threads + tx] >= 0:
                    T.atomic_add(counts[A[s * threads + tx]], 1)
                if A[s * threads + tx] == 3:
                    place = T.atomic_add(found[0], 1, return_prev=True)
                    list_of[place] = s * threads + tx
            T.sync_threads()
            C[tx] = counts[tx]
            kept[tx] = list_of[tx]

    return main


def mixed(n, threads=128):
    """A tile operator between what threads do."""
    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), C: T.Tensor((n,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((n,), "int32")
            T.copy(A, tile)
            C[tx] = tile[n - 1 - tx]

    return main


def barriers(program, value):
    from tilec.jit import compile

    text = compile(program, target="sm_90a", pass_configs={SETTING: value}).artifact.text("cuda")
    kernel = text[text.index("__global__"):]
    loop = kernel[kernel.index("for (int s"):] if "for (int s" in kernel else ""
    loop = loop[:loop.index("\n  }\n")] if loop else ""
    return kernel.count("tile_sync_threads"), loop.count("tile_sync_threads")


def test_threads_are_left_alone():
    assert barriers(histogram(1024), True) == (2, 0)
    assert barriers(histogram(1024), False)[1] > 0


@pytest.mark.parametrize("value", [True, False])
def test_tile_operators_are_waited_for(value):
    assert barriers(mixed(128), value)[0] == 1
