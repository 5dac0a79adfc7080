"""Deferred reductions: an epoch is opened, every iteration contributes, finalising writes a fragment."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=128
@tilelang.jit
def folded(M, N, block=64, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), total: T.Tensor((M,), dtype), most: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=128) as _:
            sums = T.alloc_reducer((M,), dtype, op="sum")
            tops = T.alloc_reducer((N,), dtype, op="max")
            sums_out = T.alloc_fragment((M,), dtype)
            tops_out = T.alloc_fragment((N,), dtype)
            T.reducer_init(sums)
            for k in T.serial(N // block):
                for i, j in T.Parallel(M, block):
                    T.reducer_update(sums[i], X[i, k * block + j])
            T.finalize_reducer(sums, sums_out)
            T.reducer_init(tops)
            for i, j in T.Parallel(M, N):
                T.reducer_update(tops[j], X[i, j])
            T.finalize_reducer(tops, tops_out)
            T.copy(sums_out, total)
            T.copy(tops_out, most)

    return main


def reference(X):
    return X.sum(1), X.amax(0)
