"""A script as users write them: it imports tilelang. tests/test_jit.py runs it on this compiler."""
import sys

import tilelang
import tilelang.language as T
import torch


@T.macro
def scaled(A, B, i, factor):
    B[i] = A[i] * factor


@tilelang.jit(out_idx=[-1], target="llvm")
def scale(n, factor, block=32):
    @T.prim_func
    def main(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                scaled(A, B, bx * block + i, factor)

    return main


if __name__ == "__main__":
    factor = float(sys.argv[1])
    a = torch.arange(100, dtype=torch.float32)
    assert torch.equal(scale(100, factor)(a), a * factor)
    print("right", tilelang.__version__)
