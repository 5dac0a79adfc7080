"""Hopper matrix product with the explicit operator: issued by warpgroups, waited for before the tiles are overwritten."""
# mutation target: sm_90a
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=128
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, bm=64, bn=64, bk=64, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.serial(K // bk):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.wgmma_gemm(a, b, acc)
                T.wait_wgmma(0)
            T.copy(acc, C[by * bm, bx * bn])

    return main


def reference(A, B):
    return A.float() @ B.float()
