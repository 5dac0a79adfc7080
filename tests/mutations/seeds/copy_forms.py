"""Copies in all forms: corner, slices, whole buffers, conversion, a fixed leading index, transposition, views."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=64
@tilelang.jit
def moved(M, N, tile=32, dtype="float32"):
    @T.prim_func
    def main(
        X: T.Tensor((2, M, N), dtype),
        Y: T.Tensor((2, M, N), "float16"),
        Z: T.Tensor((M, N), dtype),
        W: T.Tensor((N, M), dtype),
    ):
        with T.Kernel(N // tile, M // tile, threads=128) as (bx, by):
            s = T.alloc_shared((tile, tile), dtype)
            t = T.alloc_shared((tile, tile), dtype)
            f = T.alloc_fragment((tile, tile), dtype)
            h = T.alloc_fragment((tile, tile), "float16")
            T.copy(X[0, by * tile, bx * tile], s)
            T.copy(s, f)
            T.copy(f, h)
            T.copy(h, Y[0, by * tile, bx * tile])
            T.transpose(s, t)
            T.copy(t, W[bx * tile : (bx + 1) * tile, by * tile : (by + 1) * tile])
            T.copy(X[1, by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile], f)
            for i, j in T.Parallel(tile, tile):
                f[i, j] = f[i, j] + s[i, j]
            T.copy(f, Z[by * tile, bx * tile])
            T.copy(f, Y[1, by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile])

    return main


def reference(X):
    import torch

    return torch.stack((X[0], X[0] + X[1])).half(), X[0] + X[1], X[0].T.contiguous()
