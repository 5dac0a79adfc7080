"""Matrix product with int4 weights: two values a byte, unpacked to float16 in shared memory, C[M, N] = A[M, K] @ W[N, K]^T.

A nibble n stands for n - 8, so the weights are integers from -8 to 7.
"""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=256
# tile-lsp: instance M=1024 N=4096 K=4096
@tilelang.jit(out_idx=[-1])
def dequant_matmul(M, N, K, block_M=64, block_N=64, block_K=64, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K // 2), "uint8"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            W_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(W[bx * block_N, k * block_K // 2], packed)
                for i, j in T.Parallel(block_N, block_K):
                    byte = T.cast(packed[i, j // 2], "int32")
                    nibble = (byte >> (j % 2 * 4)) & 15
                    W_shared[i, j] = T.cast(nibble - 8, dtype)
                T.gemm(A_shared, W_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def reference(A, W):
    import torch

    low, high = (W & 15).int() - 8, (W >> 4).int() - 8
    weights = torch.stack((low, high), dim=-1).reshape(W.shape[0], -1).float()
    return (A.float() @ weights.T).to(A.dtype)
