"""Bulk copies (TMA) of a vector through shared memory, awaited on an mbarrier whose parity alternates."""
# mutation target: sm_90a
import tilelang
import tilelang.language as T


# tile-lsp: instance N=4096
@tilelang.jit
def bulk(N, block=256, rounds=4, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // (block * rounds), threads=128) as bx:
            s = T.alloc_shared((block,), dtype)
            ready = T.alloc_barrier(128)
            for k in T.serial(rounds):
                T.tma_copy(A[(bx * rounds + k) * block : (bx * rounds + k + 1) * block], s, barrier=ready)
                T.barrier_arrive(ready)
                T.mbarrier_wait_parity(ready, k & 1)
                T.tma_copy(s, B[(bx * rounds + k) * block : (bx * rounds + k + 1) * block])
                T.tma_store_wait()

    return main


def reference(A):
    return A.clone()
