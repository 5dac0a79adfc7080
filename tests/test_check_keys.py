"""Compile-time arguments that TileLang's cache of kernels cannot hash, and those it can."""

from __future__ import annotations

import pytest
from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

HEAD = """from dataclasses import dataclass

import tilelang
import tilelang.language as T


{config}


@tilelang.jit
def fill(size):
    @T.prim_func
    def main(X: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128) as bx:
            for i in T.Parallel(128):
                X[i] = 0.0

    return main


{call}
"""
MUTABLE = "@dataclass\nclass Config:\n    n: int = 1"


def underlined(call: str, config: str = MUTABLE, instances: tuple[str, ...] = ()) -> list[str]:
    text = HEAD.format(config=config, call=call)
    analysis = analyse(SourceFile("k.py", text), instances=instances)
    found = check_analysis(analysis, [find(t) for t in DECLARED], manifest.load("0.1.15"), explicit=False)
    assert {d.name for d in found} <= {"jit-key-unhashable"}
    return [text.splitlines()[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1] for d in found]


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("fill([128])", "[128]"),
        ("fill(size=[128])", "[128]"),
        ('fill({"n": 128})', '{"n": 128}'),
        ("fill({128})", "{128}"),
        ("fill(Config())", "Config()"),
        ("fill((1, Config()))", "(1, Config())"),
        ("def make(x):\n    return fill(x)\n\n\nmake([1])", "x"),
    ],
)
def test_refused(call: str, argument: str) -> None:
    assert underlined(call) == [argument]


@pytest.mark.parametrize(
    ("call", "config"),
    [
        ("fill((128, 64))", MUTABLE),
        ("fill.compile([128])", MUTABLE),  # compile makes tuples of lists
        ("fill.get_tir([128])", MUTABLE),
        ("fill(Config())", "@dataclass(frozen=True)\nclass Config:\n    n: int = 1"),
        ("fill(Config())", "@dataclass(eq=False)\nclass Config:\n    n: int = 1"),
        ("fill(Config())", "class Config:\n    n = 1"),
        ("fill(Config())", "class Config:\n    def __eq__(self, other):\n        return True\n\n    def __hash__(self):\n        return 1"),
        ("fill(Config.A)", "from enum import Enum\n\n\nclass Config(Enum):\n    A = 1"),
        ("fill(unknown_elsewhere)", "from elsewhere import unknown_elsewhere"),
    ],
)
def test_taken(call: str, config: str) -> None:
    assert underlined(call, config) == []


def test_an_instance_by_command_is_no_call() -> None:
    assert underlined("", instances=("fill([128])",)) == []
