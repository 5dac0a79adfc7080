"""Which chip a kernel is shown for."""

from __future__ import annotations

import pytest
from tilec.evaluate import analyse, instantiate
from tilec.source.file import SourceFile

from tile_lsp.ide.preferences import Preferences
from tile_lsp.ide.targets import lowering_target

KERNEL = """import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128) as bx:
        s = ALLOC
"""


def program(allocation: str):
    analysis = analyse(SourceFile("a.py", KERNEL.replace("ALLOC", allocation)))
    (kernel,) = analysis.kernels
    return instantiate(analysis, kernel, kernel.instances[0])


@pytest.mark.parametrize(
    ("allocation", "preferences", "target"),
    [
        ("T.alloc_shared((128, 128), 'float32')", Preferences(), "sm_90a"),
        ("T.alloc_shared((128, 128), 'float32')", Preferences(targets=("cpu", "sm_80", "sm_100a")), "sm_80"),
        ("T.alloc_shared((128, 128), 'float32')", Preferences(target="sm_89", targets=("sm_80",)), "sm_89"),
        ("T.alloc_tmem([128, 128], 'float32')", Preferences(), "sm_100a"),
        ("T.alloc_tmem([128, 128], 'float32')", Preferences(targets=("sm_90a", "sm_103a")), "sm_103a"),
    ],
)
def test_target(allocation: str, preferences: Preferences, target: str) -> None:
    assert lowering_target(program(allocation), preferences) == target
