"""Matrix-vector product y = A x: a tile of rows per block, reduced along the columns."""
import tilelang
import tilelang.language as T


# tile-lsp: instance N=256 K=512
# tile-lsp: instance N=16384 K=16384
@tilelang.jit(out_idx=[-1])
def gemv(N, K, block_N=16, block_K=256, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N, K), dtype), x: T.Tensor((K,), dtype), y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bn:
            products = T.alloc_fragment((block_N, block_K), accum_dtype)
            part = T.alloc_fragment((block_N,), accum_dtype)
            total = T.alloc_fragment((block_N,), accum_dtype)

            T.clear(total)
            for k in T.serial(T.ceildiv(K, block_K)):
                for i, j in T.Parallel(block_N, block_K):
                    products[i, j] = T.cast(A[bn * block_N + i, k * block_K + j], accum_dtype) * T.cast(x[k * block_K + j], accum_dtype)
                T.reduce_sum(products, part, dim=1)
                for i in T.Parallel(block_N):
                    total[i] = total[i] + part[i]
            T.copy(total, y[bn * block_N])

    return main


def reference(A, x):
    return (A.float() @ x.float()).to(A.dtype)
