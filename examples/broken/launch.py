"""Launches: a grid extent that is a float, too many threads, and names that do not fit the grid."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def float_grid(N=1024, block=128):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N / block, threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]

    return main


@tilelang.jit(out_idx=[-1])
def many_threads(N=4096, block=2048):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // block, threads=2048) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i]

    return main


@tilelang.jit(out_idx=[-1])
def wrong_unpack(M=128, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(N // 32, M // 32, threads=128) as (bx, by, bz):
            for i, j in T.Parallel(32, 32):
                B[i, j] = A[i, j]

    return main
