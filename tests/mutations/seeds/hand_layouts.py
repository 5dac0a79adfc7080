"""A padded shared tile for a transposition and a register tile whose distribution over the threads is written out."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=64
# mutation target: sm_80
@tilelang.jit
def transposed(M, N, tile=32, dtype="float32"):
    rows = T.Fragment((tile, tile), forward_fn=lambda i, j: (i * 4 + j // 8, j % 8))

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((N, M), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
            s = T.alloc_shared((tile, tile), dtype)
            f = T.alloc_fragment((tile, tile), dtype)
            T.annotate_layout({s: T.Layout((tile, tile), lambda i, j: i * (tile + 1) + j), f: rows})
            T.annotate_l2_hit_ratio({A: 0.5})
            T.copy(A[by * tile, bx * tile], s)
            for i, j in T.Parallel(tile, tile):
                B[bx * tile + i, by * tile + j] = s[j, i]
            for i, j in T.Parallel(tile, tile, loop_layout=rows):
                f[i, j] = A[by * tile + i, bx * tile + j] + 1.0
            T.copy(f, C[by * tile, bx * tile])

    return main


def reference(A):
    return A.T.contiguous(), A + 1
