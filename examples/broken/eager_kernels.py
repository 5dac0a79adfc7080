"""Eager kernels: a T.const size of no tensor, out_idx though T.empty makes the result, and a Python function applied to a device value."""
import tilelang
import tilelang.language as T


# tile-lsp: instance A=tensor((1024,), "float32")
@tilelang.jit
def unused_size(A, block: int = 128):
    N, M = T.const("N, M")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(N // block, threads=128) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * 2.0
    return B


# tile-lsp: instance A=tensor((1024,), "float32")
@tilelang.jit(out_idx=[-1])
def two_ways_out(A, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(N // block, threads=128) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] + 1.0
    return B


# tile-lsp: instance A=tensor((1024,), "float32")
@tilelang.jit
def python_function(A, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(N // block, threads=128) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = float(A[bx * block + i])
    return B
