"""The language by this compiler's own name: ``import tilec``, ``import tilec.language as T``."""
from __future__ import annotations

import pytest
import tilec
import tilec.language as T
import torch
from tilec.check.checker import check_analysis
from tilec.evaluate import analyse
from tilec.source import SourceFile
from tilec.target import chips

from tile_lsp.releases import manifest

pytest.importorskip("tvm")


@tilec.jit(out_idx=[-1], target="cpu")
def add(N, block=64):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), T.float32), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return main


def test_a_kernel_of_a_program_without_tilelang():
    a, b = torch.randn(256), torch.randn(256)
    torch.testing.assert_close(add(256)(a, b), a + b, rtol=0, atol=0)


def test_what_the_package_gives():
    from tilec.jit import JITKernel
    from tilec.jit import autotune as _

    assert isinstance(tilec.compile(add.get_tir(128), out_idx=[-1], target="cpu"), JITKernel)
    assert tilec.cdiv(7, 2) == 4 and callable(tilec.autotune) and callable(tilec.jit), "tilec.jit stays the decorator after it was imported as a module"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tilec.nothing


CODE = """import tilec
import tilec.language as T
from tilec import jit
from tilec.evaluate import analyse
import tilec.target.chips

tilec.check.anything(analyse)

@DECORATOR(out_idx=[-1])
def scale(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * 2
    return main

scale(256)
"""


def findings(code: str) -> tuple[list[tuple[str, int]], int]:
    analysis = analyse(SourceFile("kernel.py", code))
    found = check_analysis(analysis, (chips.find("sm_90a"),), manifest.load("0.1.15"))
    return [(d.name, d.span.line) for d in found], sum(len(k.instances) for k in analysis.kernels)


@pytest.mark.parametrize("decorator", ["tilec.jit", "jit"])
def test_such_files_are_checked(decorator: str):
    code = CODE.replace("DECORATOR", decorator)
    assert findings(code) == ([], 1), "what is no name of the language is nobody's business"
    assert findings(code.replace("T.Parallel(64)", "T.Paralel(64)"))[0] == [("unknown-attribute", 14)]
    assert findings(code.replace('"float32"), B', '"floot32"), B'))[0] == [("dtype-name", 12)]


def test_parts_of_the_package_are_no_names_of_the_language():
    """An import of a part asks the package for that name first: in a process that has imported nothing else yet."""
    import subprocess
    import sys

    code = "from tilec.language import kinds, parameters; import tile_lsp.server.main; assert kinds.POLICY and parameters.kind_of"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
