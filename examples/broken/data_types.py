"""Data types: a name that is none, and a bitwise operator on floats."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def bad_name(N=1024):
    @T.prim_func
    def main(A: T.Tensor((N,), "fp16"), B: T.Tensor((N,), "float16")):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i]

    return main


@tilelang.jit(out_idx=[-1])
def bits_of_floats(N=1024):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] & 1

    return main
