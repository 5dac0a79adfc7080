"""Compiling kernels given as source text, for tests of the stages after the front end."""
from __future__ import annotations

import textwrap
from typing import Any

from tilec.evaluate import analyse, instantiate
from tilec.ir.program import TileProgram
from tilec.pipeline import Artifact, compile_program
from tilec.source import SourceFile
from tilec.target.chips import find

HEADER = "import tilelang\nimport tilelang.language as T\n"


def program(text: str, index: int = 0) -> TileProgram:
    """The tile program of the kernel in a source text; the front end must have understood all of it."""
    analysis = analyse(SourceFile("kernel.py", HEADER + textwrap.dedent(text)))
    kernel = analysis.kernels[index]
    made = instantiate(analysis, kernel, kernel.instances[0])
    assert not made.attrs["problems"], made.attrs["problems"]
    return made


def prim(signature: str, body: str) -> TileProgram:
    """A kernel from its parameters and the body of its function."""
    head = f"@T.prim_func\ndef kernel({signature}):\n"
    return program(head + textwrap.indent(textwrap.dedent(body), "    "))


def on_cpu(made: TileProgram) -> Any:
    return compile_program(made, find("cpu")).host_callable()


def for_target(made: TileProgram, target: str) -> Artifact:
    return compile_program(made, find(target))
