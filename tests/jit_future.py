"""Deferred annotations: the names of a signature stand in the enclosing function alone."""
from __future__ import annotations

from tilec.jit import compile
from tilec.jit.language import member
from tilec.jit.trace import prim_func


class T:
    """The language's names, as far as this file needs them."""

    prim_func = staticmethod(prim_func)
    Tensor = member("tilelang.language", "Tensor")
    Kernel = member("tilelang.language", "Kernel")
    Parallel = member("tilelang.language", "Parallel")


def negate(count, kind="float32"):
    @T.prim_func
    def main(X: T.Tensor((count,), kind), Y: T.Tensor((count,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                Y[i] = -X[i]

    return compile(main, out_idx=1, target="llvm")
