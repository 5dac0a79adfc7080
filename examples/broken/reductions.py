"""Reductions: a dimension that does not exist, and an output of the wrong shape."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def bad_dim(M=64, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((M, N), "float32")
            s = T.alloc_fragment((M,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, s, dim=2)
            T.copy(s, B)

    return main


@tilelang.jit(out_idx=[-1])
def bad_shape(M=64, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=128) as _:
            x = T.alloc_fragment((M, N), "float32")
            s = T.alloc_fragment((N,), "float32")
            T.copy(A, x)
            T.reduce_max(x, s, dim=1)
            T.copy(s, B)

    return main
