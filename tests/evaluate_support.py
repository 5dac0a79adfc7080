"""Small programs for the evaluator's tests: their instances and tile programs."""
from __future__ import annotations

from pathlib import Path
from typing import Any

from tilec.evaluate import analyse, instantiate
from tilec.evaluate.coverage import gap
from tilec.ir.buffer import Buffer
from tilec.ir.printer import expr_text
from tilec.source import SourceFile

HEADER = "import torch\nimport tilelang\nimport tilelang.language as T\n"

# A factory of a kernel whose shapes show what it was called with.
FACTORY = HEADER + '''
@tilelang.jit(out_idx=[1])
def scale(M, N, block=64, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            tile = T.alloc_shared((block, 32), dtype)
            T.copy(A[bx * block, 0], tile)
            T.copy(tile, B[bx * block, 0])
    return main

'''

# The same as an eager kernel.
EAGER = HEADER + '''
@tilelang.jit
def scale(A, block=64):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float16")
    B = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        tile = T.alloc_shared((block, 32), "float16")
        T.copy(A[bx * block, 0], tile)
        T.copy(tile, B[bx * block, 0])
    return B

'''


def analysis_of(text: str, path: str | Path = "kernel.py", **options: Any) -> Any:
    return analyse(SourceFile(str(path), text), **options)


def calls(text: str, path: str | Path = "kernel.py") -> list[str]:
    """How the kernels of a file are instantiated, in order."""
    return [i.text for k in analysis_of(text, path).kernels for i in k.instances]


def programs(text: str, path: str | Path = "kernel.py") -> list[Any]:
    analysis = analysis_of(text, path)
    return [instantiate(analysis, k, i) for k in analysis.kernels for i in k.instances]


def shapes(text: str, path: str | Path = "kernel.py") -> list[str]:
    """The tensors each instance takes, as ``A: float16[M, 32]``."""
    return [", ".join(describe(p) for p in program.params if isinstance(p, Buffer)) for program in programs(text, path)]


def describe(buffer: Buffer) -> str:
    return f"{buffer.name}: {buffer.dtype}[{', '.join(expr_text(e) for e in buffer.shape)}]"


def gaps(text: str, path: str | Path = "kernel.py") -> list[str | None]:
    return [gap(p) for p in programs(text, path)]
