"""Asynchronous copies (cp.async) into shared memory, waited for as a group before the tile is read."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128
@tilelang.jit
def prefetch(M, N, tile=32, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
            a = T.alloc_shared((tile, tile), dtype)
            b = T.alloc_shared((tile, tile), dtype)
            T.async_copy(A[by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile], a)
            T.async_copy(B[by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile], b)
            T.ptx_wait_group(0)
            T.sync_threads()
            for i, j in T.Parallel(tile, tile):
                C[by * tile + i, bx * tile + j] = a[i, j] + b[i, j]

    return main


def reference(A, B):
    return A + B
