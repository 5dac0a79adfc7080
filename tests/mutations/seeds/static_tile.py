"""Static shared memory and a tile of registers, both well below what a block may have."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128
@tilelang.jit
def reversed_rows(M, N, rows=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(M // rows, threads=128) as bx:
            s = T.alloc_shared((rows, N), dtype, scope="shared")
            f = T.alloc_fragment((rows, N), dtype)
            T.copy(A[bx * rows, 0], s)
            for i, j in T.Parallel(rows, N):
                f[i, j] = s[i, N - 1 - j]
            T.copy(f, B[bx * rows, 0])

    return main


def reference(A):
    return A.flip(1)
