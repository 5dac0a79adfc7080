"""Barriers of tensor memory: a product that is never waited for, and one whose awaited parity does not alternate.

For Blackwell. TileLang compiles both; the results are wrong.
"""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def never_waited(M=128, N=128, K=64):
    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, K), "bfloat16")
            B_shared = T.alloc_shared((N, K), "bfloat16")
            C_tmem = T.alloc_tmem([M, N], "float32")
            done = T.alloc_barrier(1)
            C_local = T.alloc_fragment((M, N), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.tcgen05_gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=done, clear_accum=True)
            T.copy(C_tmem, C_local)
            T.copy(C_local, C)

    return main


@tilelang.jit(out_idx=[-1])
def same_parity(M=128, N=128, K=256):
    @T.prim_func
    def main(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((N, K), "bfloat16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((M, 64), "bfloat16")
            B_shared = T.alloc_shared((N, 64), "bfloat16")
            C_tmem = T.alloc_tmem([M, N], "float32")
            done = T.alloc_barrier(1)
            C_local = T.alloc_fragment((M, N), "float32")
            for k in T.serial(K // 64):
                T.copy(A[0, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.tcgen05_gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=done, clear_accum=k == 0)
                T.mbarrier_wait_parity(done, 0)
            T.copy(C_tmem, C_local)
            T.copy(C_local, C)

    return main
