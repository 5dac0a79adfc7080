"""Matrix product with the K dimension split over blocks, which add their parts atomically. C must hold zeros at the start."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=512
# tile-lsp: instance M=1024 N=1024 K=8192
@tilelang.jit
def split_k_matmul(M, N, K, block_M=64, block_N=64, block_K=32, split=4, dtype="float16", accum_dtype="float32"):
    part = K // split

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), accum_dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), split, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(part, block_K), num_stages=2):
                T.copy(A[by * block_M, bz * part + k * block_K], A_shared)
                T.copy(B[bz * part + k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                T.atomic_add(C[by * block_M + i, bx * block_N + j], C_local[i, j])

    return main


def inputs(M, N, K):
    import torch

    return torch.randn(M, K).half(), torch.randn(K, N).half(), torch.zeros(M, N)


def reference(A, B, C):
    return C + A.float() @ B.float()
