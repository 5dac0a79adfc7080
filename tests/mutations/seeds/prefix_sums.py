"""Inclusive scans: in shared memory in place, from one tile to another, in registers, and a running maximum."""
import tilelang
import tilelang.language as T


# tile-lsp: instance M=32 N=64
@tilelang.jit
def prefix(M, N, dtype="float32"):
    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        forward: T.Tensor((M, N), dtype),
        backward: T.Tensor((M, N), dtype),
        largest: T.Tensor((M, N), dtype),
        line: T.Tensor((N,), dtype),
    ):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((M, N), dtype)
            scanned = T.alloc_shared((M, N), dtype)
            registers = T.alloc_fragment((M, N), dtype)
            row = T.alloc_shared((N,), dtype)
            T.copy(X, tile)
            T.cumsum(tile, scanned, dim=1)
            T.copy(scanned, forward)
            T.cummax(tile, scanned, dim=0)
            T.copy(scanned, largest)
            T.copy(tile, registers)
            T.cumsum(registers, dim=1, reverse=True)
            T.copy(registers, backward)
            T.copy(X[0, 0:N], row)
            T.cumsum(row, dim=0)
            T.copy(row, line)

    return main


def reference(X):
    return X.cumsum(1), X.flip(1).cumsum(1).flip(1), X.cummax(0).values, X[0].cumsum(0)
