"""Warp specialisation: warpgroup 0 loads tiles, warpgroup 1 adds and stores them, two mbarriers hand a tile over and back."""
# mutation target: sm_90a
import tilelang
import tilelang.language as T


# tile-lsp: instance M=256 N=64
@tilelang.jit
def relay(M, N, rows=32, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(2, threads=256) as bx:
            tile = T.alloc_shared((rows, N), dtype)
            full = T.alloc_barrier(128)
            empty = T.alloc_barrier(128)
            for k in T.serial(M // rows // 2):
                with T.ws(0):
                    T.mbarrier_wait_parity(empty, (k + 1) % 2)
                    T.copy(A[(bx * (M // rows // 2) + k) * rows, 0], tile)
                    T.barrier_arrive(full)
                with T.ws(1):
                    T.mbarrier_wait_parity(full, k % 2)
                    T.copy(tile, B[(bx * (M // rows // 2) + k) * rows, 0])
                    T.barrier_arrive(empty)

    return main


def reference(A):
    return A.clone()
