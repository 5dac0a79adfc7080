"""Tensor memory: a width the hardware rounds up, too many columns, and a product that names no barrier for its completion.

For Blackwell: check with --target sm_100a.
"""
import tilelang
import tilelang.language as T


def kernel(columns):
    M, K = 128, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((columns, K), "bfloat16"), C: T.Tensor((M, columns), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, K), "bfloat16")
            B_shared = T.alloc_shared((columns, K), "bfloat16")
            C_tmem = T.alloc_tmem([M, columns], "float32")
            mbar = T.alloc_barrier(1)
            C_local = T.alloc_fragment((M, columns), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=mbar, clear_accum=True)
            T.copy(C_tmem, C_local)
            T.copy(C_local, C)

    return main


narrow = kernel(48)
wide = kernel(640)


def without_barrier():
    M, N, K = 128, 128, 64

    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, K), "bfloat16")
            B_shared = T.alloc_shared((N, K), "bfloat16")
            C_tmem = T.alloc_tmem([M, N], "float32")
            C_local = T.alloc_fragment((M, N), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_tmem, transpose_B=True, clear_accum=True)
            T.copy(C_tmem, C_local)
            T.copy(C_local, C)

    return main
