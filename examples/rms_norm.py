"""RMSNorm: each row divided by the root of its mean square, times a weight per column."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=512
# tile-lsp: instance M=8192 N=4096 block_M=1
@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, block_M=4, eps=1e-6, dtype="bfloat16", accum_dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, N), accum_dtype)
            square = T.alloc_fragment((block_M, N), accum_dtype)
            mean = T.alloc_fragment((block_M,), accum_dtype)

            T.copy(X[bx * block_M, 0], x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, mean, dim=1)
            for i in T.Parallel(block_M):
                mean[i] = T.rsqrt(mean[i] / N + eps)
            for i, j in T.Parallel(block_M, N):
                Y[bx * block_M + i, j] = x[i, j] * mean[i] * T.cast(W[j], accum_dtype)

    return main


def reference(X, W):
    x = X.float()
    return (x * (x * x).mean(dim=-1, keepdim=True).add(1e-6).rsqrt() * W.float()).to(X.dtype)
