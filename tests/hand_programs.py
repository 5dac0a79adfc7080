"""Tile programs built by hand, for tests of the stages after the front end."""
from __future__ import annotations

from tilec.ir.buffer import FRAGMENT, GLOBAL, SHARED_DYN, Buffer, Region, whole
from tilec.ir.build import const
from tilec.ir.expr import Var
from tilec.ir.program import TileProgram
from tilec.ir.stmt import Alloc, For, Launch, TileOp
from tilec.source.span import Span


def ints(*values):
    return tuple(const(v) if isinstance(v, int) else v for v in values)


def line(n: int) -> Span:
    return Span("gemm.py", n, 1, n, 40)


def gemm(M=1024, N=1024, K=1024, block_M=128, block_N=128, block_K=32, dtype="float16", accum="float32",
         num_stages=3, threads=128) -> TileProgram:
    """The quickstart GEMM: C[M, N] = A[M, K] @ B[K, N]."""
    A = Buffer("A", ints(M, K), dtype, GLOBAL)
    B = Buffer("B", ints(K, N), dtype, GLOBAL)
    C = Buffer("C", ints(M, N), dtype, GLOBAL)
    A_shared = Buffer("A_shared", ints(block_M, block_K), dtype, SHARED_DYN, line(2))
    B_shared = Buffer("B_shared", ints(block_K, block_N), dtype, SHARED_DYN, line(3))
    C_local = Buffer("C_local", ints(block_M, block_N), accum, FRAGMENT, line(4))
    bx, by = Var("int32", None, "bx", "block"), Var("int32", None, "by", "block")
    k = Var("int32", None, "k", "loop")
    loop = For(line(6), k, const(0), const(-(-K // block_K)), (
        TileOp(line(7), "copy", {"src": Region(A, (by * block_M, k * block_K), ints(block_M, block_K), "corner"), "dst": whole(A_shared)}),
        TileOp(line(8), "copy", {"src": Region(B, (k * block_K, bx * block_N), ints(block_K, block_N), "corner"), "dst": whole(B_shared)}),
        TileOp(line(9), "gemm", {"A": whole(A_shared), "B": whole(B_shared), "C": whole(C_local), "transpose_A": False,
                                 "transpose_B": False, "policy": "square", "clear_accum": False, "mbar": None}),
    ), "pipelined", 1, {"num_stages": num_stages})
    body = (
        Alloc(line(2), A_shared), Alloc(line(3), B_shared), Alloc(line(4), C_local),
        TileOp(line(5), "clear", {"dst": whole(C_local)}), loop,
        TileOp(line(10), "copy", {"src": whole(C_local), "dst": Region(C, (by * block_M, bx * block_N), ints(block_M, block_N), "corner")}),
    )
    launch = Launch(line(1), ints(-(-N // block_N), -(-M // block_M)), (bx, by), ints(threads, 1, 1), body)
    return TileProgram("gemm", [A, B, C], (launch,), line(1), instance=f"matmul({M}, {N}, {K})", path="gemm.py", outputs=[C])
