"""Factories called by Python around them, and kernels called with tensors."""
import tilelang
import tilelang.language as T


# tile-lsp: instance N=1024
@tilelang.jit(out_idx=[1])
def doubled(N, block=256, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2.0

    return main


@tilelang.jit(out_idx=[2])
def summed(N, block=256, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


def make():
    first = doubled(1024, block=128)
    second = summed(N=2048)
    third = doubled(4096, 512, "float16")
    return first, second, third


def reference(A):
    return A * 2
