"""Integer arithmetic: shifts and masks, casts between types, an int8 product on the tensor cores, views of bytes as words."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=64 K=64
# mutation target: sm_80
@tilelang.jit
def integers(M, N, K, in_dtype="int8", accum_dtype="int32"):
    @T.prim_func
    def main(A: T.Tensor((M, K), in_dtype), B: T.Tensor((N, K), in_dtype), C: T.Tensor((M, N), accum_dtype), S: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((M, K), in_dtype)
            b = T.alloc_shared((N, K), in_dtype)
            acc = T.alloc_fragment((M, N), accum_dtype)
            low = T.alloc_fragment((M, N), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(acc)
            T.gemm(a, b, acc, transpose_B=True)
            for i, j in T.Parallel(M, N):
                low[i, j] = (acc[i, j] >> 2) & 255
            for i, j in T.Parallel(M, N):
                S[i, j] = T.cast(low[i, j] ^ 3, "float32") * 0.5
            T.copy(acc, C)

    return main


def reference(A, B):
    import torch

    product = (A.double() @ B.double().T).to(torch.int32)
    return product, (((product >> 2) & 255) ^ 3).float() * 0.5
