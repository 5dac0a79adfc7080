"""Pipelined loops without a product: tiles through shared memory, an element-wise step, a running sum in registers."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=256
@tilelang.jit
def streamed(M, N, tile=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, tile), dtype)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((M, tile), dtype)
            total = T.alloc_fragment((M, tile), dtype)
            T.clear(total)
            for k in T.Pipelined(N // tile, num_stages=2):
                T.copy(A[0, k * tile], s)
                for i, j in T.Parallel(M, tile):
                    B[i, k * tile + j] = s[i, j] * 2.0
                for i, j in T.Parallel(M, tile):
                    total[i, j] = total[i, j] + s[i, j]
            T.copy(total, C)

    return main


def reference(A):
    return A * 2, A.reshape(A.shape[0], -1, 64).sum(1)
