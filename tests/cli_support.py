"""Kernels for the tests of the command line, and running it in this process."""

from __future__ import annotations

import pytest

from tile_lsp.cli.main import main

GOOD = """import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((1024,), "float32"), Y: T.Tensor((1024,), "float32")):
    with T.Kernel(8, threads=128) as bx:
        s = T.alloc_shared((128,), "float32")
        T.copy(X[bx * 128], s)
        T.copy(s, Y[bx * 128])
"""
BAD = GOOD.replace("T.copy(X[bx * 128], s)", "T.copy(X, s)")
MISSPELT = GOOD.replace("T.alloc_shared", "T.alloc_smem")  # has a fix that is not safe
IDLE = GOOD.replace("T.copy(s, Y[bx * 128])", "T.copy(s, Y[bx * 128])  # tile-lsp: ignore[TL901]")  # has a safe fix


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``tile-lsp check``."""
    return command(capsys, "check", *arguments)


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err
