"""Element-wise sum of two matrices whose number of rows is known only when the kernel is called."""
import tilelang
import tilelang.language as T


# tile-lsp: instance N=1000
# tile-lsp: instance N=4096 block_N=256
@tilelang.jit(out_idx=[-1])
def add(N, block_M=32, block_N=128, dtype="float32"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        A: T.Tensor((M, N), dtype),
        B: T.Tensor((M, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row = by * block_M + i
                column = bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]

    return main


def reference(A, B):
    return A + B
