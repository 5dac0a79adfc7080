"""Thread-private arrays, thread indices, unrolled and vectorised loops, dynamic sizes."""
# mutation target: sm_80
import tilelang
import tilelang.language as T


# tile-lsp: instance N=1024
@tilelang.jit
def smoothed(N, threads=128, width=4, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // (threads * width), threads=threads) as bx:
            t = T.get_thread_binding(0)
            window = T.alloc_local((width,), dtype)
            total = T.alloc_local((1,), dtype)
            for v in T.vectorized(width):
                window[v] = A[(bx * threads + t) * width + v]
            total[0] = 0.0
            for v in T.unroll(width):
                total[0] = total[0] + window[v]
            for v in T.serial(width):
                B[(bx * threads + t) * width + v] = window[v] - total[0] * 0.25

    return main


def reference(A):
    grouped = A.reshape(-1, 4)
    return (grouped - grouped.sum(1, keepdim=True) * 0.25).reshape(-1)
