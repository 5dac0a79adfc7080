"""Tiled matrix product, C[M, N] = A[M, K] @ B[K, N]: the pipelined kernel most TileLang programs start from."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=256 N=256 K=256 block_M=128 block_N=128 block_K=32
# tile-lsp: instance M=1024 N=1024 K=1024 block_M=128 block_N=128 block_K=32
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, block_M, block_N, block_K, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def gemm(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)

            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def reference(A, B):
    return (A.float() @ B.float()).to(A.dtype)


if __name__ == "__main__":
    import torch

    kernel = matmul(1024, 1024, 1024, 128, 128, 32)
    a = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    b = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    torch.testing.assert_close(kernel(a, b), reference(a, b), rtol=1e-2, atol=1e-2)
    print("correct")
