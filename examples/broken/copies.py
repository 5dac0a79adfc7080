"""Copies: whole buffers of different shapes."""
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def shapes_differ(M=128, N=128):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(1, threads=128) as _:
            tile = T.alloc_shared((M, N), "float16")
            half = T.alloc_fragment((M, N // 2), "float16")
            T.copy(A, tile)
            T.copy(tile, half)
            T.copy(half, B[0, 0])

    return main
