"""Layouts given by hand: swizzled operands, a padded tile, a fragment spread row by row, and annotations of the launch."""
import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout


# tile-lsp: instance M=128 N=128 K=64
# mutation target: sm_80
@tilelang.jit(out_idx=[-1])
def matmul(M, N, K, bm=64, bn=64, bk=32, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            a = T.alloc_shared((bm, bk), dtype)
            b = T.alloc_shared((bn, bk), dtype)
            acc = T.alloc_fragment((bm, bn), "float32")
            T.annotate_layout({a: make_swizzled_layout(a), b: make_swizzled_layout(b)})
            T.annotate_min_blocks_per_sm(2)
            T.use_swizzle(panel_size=8, order="row")
            T.clear(acc)
            for k in T.Pipelined(K // bk, num_stages=2):
                T.copy(A[by * bm, k * bk], a)
                T.copy(B[bx * bn, k * bk], b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * bm, bx * bn])

    return main


def reference(A, B):
    return A.float() @ B.float().T
