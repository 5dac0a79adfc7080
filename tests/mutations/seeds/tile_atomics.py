"""Atomics on tiles: a fragment and a shared tile added to global memory, pairs of half precision values."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=64
@tilelang.jit
def accumulate(M, N, parts=2, tile=32, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((parts, M, N), dtype), Y: T.Tensor((M, N), dtype), Z: T.Tensor((M, N), dtype), W: T.Tensor((M, N), "float16")):
        with T.Kernel(N // tile, M // tile, parts, threads=128) as (bx, by, bz):
            x = T.alloc_fragment((tile, tile), dtype)
            s = T.alloc_shared((tile, tile), dtype)
            half = T.alloc_shared((tile, tile), "float16")
            T.copy(X[bz, by * tile, bx * tile], x)
            T.copy(x, s)
            T.copy(x, half)
            T.atomic_add(Y[by * tile : (by + 1) * tile, bx * tile : (bx + 1) * tile], x)
            T.atomic_max(Z[by * tile, bx * tile], s)
            for i, j in T.Parallel(tile, tile // 2):
                T.atomic_addx2(W[by * tile + i, bx * tile + j * 2], half[i, j * 2])

    return main


def inputs(M, N):
    import torch

    return torch.randn(2, M, N), torch.zeros(M, N), torch.full((M, N), -100.0), torch.zeros(M, N, dtype=torch.float16)


def reference(X, Y, Z, W):
    import torch

    return Y + X.sum(0), torch.maximum(Z, X.amax(0)), (W.float() + X.half().float().sum(0)).half()
