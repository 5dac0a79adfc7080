"""Keys of pass_configs: members and texts of the configured release, read from a source tree as well."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilec.check import check_analysis
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import find

from tile_lsp.releases import manifest
from tile_lsp.releases.static_names import pass_config_keys

KERNEL = """import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={{{key}: True}})
def zero(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 0.0

    return main
"""


def faults(key: str, version: str = "0.1.15") -> list[tuple[str, int, int]]:
    analysis = analyse(SourceFile("k.py", KERNEL.format(key=key)))
    found = check_analysis(analysis, [find("sm_90a")], manifest.load(version))
    return [(d.name, d.span.column, d.span.end_column) for d in found if d.name == "pass-config"]


@pytest.mark.parametrize("key", ["tilelang.PassConfigKey.TL_DISABLE_TMA", "'tl.disable_tma_lowr'", "'tir.disable_vectorize'"])
def test_keys_that_do_not_exist(key: str) -> None:
    assert faults(key) == [("pass-config", 29, 29 + len(key))]


@pytest.mark.parametrize("key", ["tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER", "'tl.disable_tma_lower'", "'tl.AscendRemoveNoOp'", "some_key"])
def test_keys_that_do(key: str) -> None:
    assert faults(key) == []


def test_keys_follow_the_release() -> None:
    assert faults("tilelang.PassConfigKey.TL_REDUCER_FORCE_BASELINE") == []
    assert faults("tilelang.PassConfigKey.TL_REDUCER_FORCE_BASELINE", "0.1.9")


def test_keys_are_read_from_sources(tmp_path: Path) -> None:
    folder = tmp_path / "transform"
    folder.mkdir()
    (folder / "pass_config.py").write_text("class PassConfigKey(str, Enum):\n    TL_NEW = 'tl.new'\n    '''doc'''\n")
    assert pass_config_keys(tmp_path) == {"TL_NEW": "tl.new"}
    assert pass_config_keys(tmp_path / "absent") == {}
