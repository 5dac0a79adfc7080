"""Loops: a float bound, a tile operator inside T.Parallel, and a name used after its loop."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def float_bound(N=1024):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for k in T.serial(N / 128):
                for i in T.Parallel(128):
                    B[k * 128 + i] = A[k * 128 + i]

    return main


@tilelang.jit(out_idx=[-1])
def copy_in_parallel(M=128, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            row = T.alloc_shared((N,), "float32")
            for i in T.Parallel(M):
                T.copy(A[i, 0], row)
            T.copy(row, B[0, 0])

    return main


@tilelang.jit(out_idx=[-1])
def after_loop(N=1024):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in T.serial(N):
                last = A[i] * 2.0
            B[0] = last

    return main
