"""A product whose tiles fill most of the shared memory of an A100, and a second kernel with static shared memory."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance M=256 N=256 K=256
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, bm=128, bn=128, bk=64, stages=4, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // bn, M // bm, threads=256) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // bk, num_stages=stages):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * bm, bx * bn])

    return main


def reference(A, B):
    return A.float() @ B.float()
