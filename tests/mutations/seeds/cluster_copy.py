"""Thread block clusters: two blocks exchange nothing but their ranks and wait for each other."""
# mutation target: sm_90a
import tilelang
import tilelang.language as T


# tile-lsp: instance N=2048
@tilelang.jit
def ranked(N, block=256, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // block, threads=128, cluster_dims=(2, 1, 1)) as bx:
            s = T.alloc_shared((block,), dtype)
            rank = T.block_rank_in_cluster()
            T.copy(A[bx * block], s)
            T.cluster_sync()
            for i in T.Parallel(block):
                B[bx * block + i] = s[i] + T.cast(rank, dtype)
            T.cluster_sync()

    return main
