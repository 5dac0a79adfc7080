"""Buffers: an index beyond a shared tile, the wrong number of indices, and a float index."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def beyond(N=1024):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // 128, threads=128) as bx:
            tile = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], tile)
            for i in T.Parallel(128):
                B[bx * 128 + i] = tile[i] + tile[128]

    return main


@tilelang.jit(out_idx=[-1])
def rank_and_float(M=128, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i, j in T.Parallel(M, N):
                B[i, j] = A[i]
            for i, j in T.Parallel(M, N // 2):
                B[i, j / 2] = A[i, j]

    return main
