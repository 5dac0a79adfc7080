"""Blackwell: two products into two tensor memory accumulators, each with its barrier, added in registers."""
# mutation target: sm_100a
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=64 K=128
@tilelang.jit(out_idx=[-1])
def pair(M, N, K, bk=64, dtype="float16", accum="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), D: T.Tensor((N, K), dtype), C: T.Tensor((M, N), accum)):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((M, bk), dtype)
            b = T.alloc_shared((N, bk), dtype)
            d = T.alloc_shared((N, bk), dtype)
            first = T.alloc_tmem([M, N], accum)
            second = T.alloc_tmem([M, N], accum)
            first_done = T.alloc_barrier(1)
            second_done = T.alloc_barrier(1)
            x = T.alloc_fragment((M, N), accum)
            y = T.alloc_fragment((M, N), accum)
            for k in T.serial(K // bk):
                T.copy(A[0, k * bk], a)
                T.copy(B[0, k * bk], b)
                T.copy(D[0, k * bk], d)
                T.tcgen05_gemm(a, b, first, transpose_B=True, mbar=first_done, clear_accum=k == 0)
                T.tcgen05_gemm(a, d, second, transpose_B=True, mbar=second_done, clear_accum=k == 0)
                T.mbarrier_wait_parity(first_done, k % 2)
                T.mbarrier_wait_parity(second_done, k % 2)
            T.copy(first, x)
            T.copy(second, y)
            for i, j in T.Parallel(M, N):
                x[i, j] = x[i, j] + y[i, j]
            T.copy(x, C)

    return main


def reference(A, B, D):
    return A.float() @ (B.float() + D.float()).T
