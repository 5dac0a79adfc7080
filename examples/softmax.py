"""Softmax over the rows of a matrix: two reductions and two passes over registers."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=512
# tile-lsp: instance M=8192 N=4096 block_M=1
@tilelang.jit(out_idx=[-1])
def softmax(M, N, block_M=4, dtype="float16", accum_dtype="float32", threads=128):
    scale = 1.44269504  # log2(e): exp(x) = exp2(x * scale)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            x = T.alloc_fragment((block_M, N), accum_dtype)
            row_max = T.alloc_fragment((block_M,), accum_dtype)
            row_sum = T.alloc_fragment((block_M,), accum_dtype)

            T.copy(X[bx * block_M, 0], x)
            T.reduce_max(x, row_max, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = T.exp2((x[i, j] - row_max[i]) * scale)
            T.reduce_sum(x, row_sum, dim=1)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] / row_sum[i]
            T.copy(x, Y[bx * block_M, 0])

    return main


def reference(X):
    return X.float().softmax(dim=-1).to(X.dtype)
