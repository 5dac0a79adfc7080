"""A ring of two shared tiles guarded by arrays of mbarriers: the producer is one round ahead of the consumer."""
# mutation target: sm_90a
import tilelang
import tilelang.language as T


# tile-lsp: instance M=512 N=64
@tilelang.jit
def ring(M, N, rows=64, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=256) as _:
            tiles = T.alloc_shared((2, rows, N), dtype)
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            with T.ws(0):
                T.dec_max_nreg(40)
                for k in T.serial(M // rows):
                    T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                    T.tma_copy(A[k * rows : (k + 1) * rows, 0:N], tiles[k % 2, 0:rows, 0:N], barrier=full[k % 2])
                    T.mbarrier_arrive(full[k % 2])
            with T.ws(1):
                T.inc_max_nreg(160)
                for k in T.serial(M // rows):
                    T.mbarrier_wait_parity(full[k % 2], (k // 2) % 2)
                    T.copy(tiles[k % 2, 0:rows, 0:N], B[k * rows : (k + 1) * rows, 0:N])
                    T.mbarrier_arrive(empty[k % 2])

    return main


def reference(A):
    return A.clone()
