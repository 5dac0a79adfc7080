"""Blackwell matrix product: the accumulator lives in tensor memory (TMEM).

The product is asynchronous and reports its completion on an mbarrier; ``T.gemm`` with ``mbar=`` waits for it itself. Tensor
memory is read back through ``T.copy`` to registers, never by element.
"""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=128
# tile-lsp: instance M=4096 N=4096 K=4096
@tilelang.jit(out_idx=[-1], target="cuda")
def matmul(M, N, K, block_M=128, block_N=128, block_K=64, dtype="bfloat16", accum_dtype="float32"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_tmem = T.alloc_tmem([block_M, block_N], accum_dtype)
            mbar = T.alloc_barrier(1)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=1):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_tmem, transpose_B=True, mbar=mbar, clear_accum=k == 0)

            T.copy(C_tmem, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def reference(A, B):
    return (A.float() @ B.float().T).to(A.dtype)
