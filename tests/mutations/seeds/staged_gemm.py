"""A pipeline whose schedule is written out: the copies in stage 0, the product in stage 1; nested in a loop over column tiles."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance M=128 N=128 K=128
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, bm=64, bn=64, bk=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(M // bm, threads=128) as by:
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bk, bn), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            for bx in T.serial(N // bn):
                T.clear(acc)
                for k in T.Pipelined(K // bk, order=[0, 1, 2], stage=[0, 0, 1]):
                    T.copy(A[by * bm, k * bk], a)
                    T.copy(B[k * bk, bx * bn], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C[by * bm, bx * bn])

    return main


def reference(A, B):
    return A.float() @ B.float()
