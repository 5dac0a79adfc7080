"""API names: one that no release has, and a keyword that does not exist."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def scale(N=1024, block=128):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceil_div(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return main


@tilelang.jit(out_idx=[-1])
def product(M=256, N=256, K=256):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((M, N), "float16")):
        with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((64, 32), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[by * 64, k * 32], A_shared)
                T.copy(B[bx * 64, k * 32], B_shared)
                T.gemm(A_shared, B_shared, C_local, trans_B=True)
            T.copy(C_local, C[by * 64, bx * 64])

    return main
