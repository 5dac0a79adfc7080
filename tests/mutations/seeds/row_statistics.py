"""Reductions over both dimensions, from registers and from shared memory, and an integer one."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=64 N=128
@tilelang.jit
def statistics(M, N, dtype="float32"):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        rows: T.Tensor((M,), dtype),
        columns: T.Tensor((N,), dtype),
        smallest: T.Tensor((M,), dtype),
        bits: T.Tensor((M,), "int32"),
    ):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((M, N), dtype)
            x = T.alloc_fragment((M, N), dtype)
            whole = T.alloc_fragment((M, N), "int32")
            row_sum = T.alloc_fragment((M,), dtype)
            row_min = T.alloc_fragment((M,), dtype)
            row_bits = T.alloc_fragment((M,), "int32")
            column_max = T.alloc_fragment((N,), dtype)
            T.copy(X, tile)
            T.copy(tile, x)
            T.reduce_sum(x, row_sum, dim=1)
            T.reduce_min(x, row_min, dim=1, clear=True)
            T.reduce_absmax(tile, column_max, dim=0)
            for i, j in T.Parallel(M, N):
                whole[i, j] = T.cast(x[i, j], "int32")
            T.reduce_bitor(whole, row_bits, dim=1)
            T.copy(row_sum, rows)
            T.copy(row_min, smallest)
            T.copy(column_max, columns)
            T.copy(row_bits, bits)

    return main


def reference(X):
    import torch

    bits = X.to(torch.int32)
    folded = bits[:, 0].clone()
    for j in range(1, bits.shape[1]):
        folded |= bits[:, j]
    return X.sum(1), X.abs().amax(0), X.amin(1), folded
