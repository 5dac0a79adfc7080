import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def scale(N, block_N=128):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            for i in T.Paralel(block_N):
                B[bx * block_N + i] = A[bx * block_N + i] * 2.0

    return kernel


scale(1024)
