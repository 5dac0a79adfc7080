"""Blackwell matrix product in its explicit form: T.tcgen05_gemm issues, T.mbarrier_wait_parity waits.

The barrier completes one phase per iteration, so the parity waited for alternates.
"""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=128
# tile-lsp: instance M=4096 N=4096 K=4096
@tilelang.jit(out_idx=[-1], target="cuda")
def matmul(M, N, K, block_M=128, block_N=128, block_K=64, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), accum_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_tmem = T.alloc_tmem([block_M, block_N], accum_dtype)
            done = T.alloc_barrier(1)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.tcgen05_gemm(A_shared, B_shared, C_tmem, mbar=done, clear_accum=k == 0)
                T.mbarrier_wait_parity(done, k % 2)

            T.copy(C_tmem, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def reference(A, B):
    return A.float() @ B.float()
