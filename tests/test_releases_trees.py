"""TileLang as a source tree or a build without a shipped manifest: its names are read from its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_lsp.releases import discover, manifest, trees


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))
    language = tmp_path / "3rdparty" / "tilelang" / "tilelang" / "language"
    language.mkdir(parents=True)
    (tmp_path / "3rdparty" / "tilelang" / "VERSION").write_text("0.1.16.dev3\n")
    (language / "__init__.py").write_text("from .new import *\nfrom .kernel import Kernel\nfrom elsewhere import thing\n")
    (language / "new.py").write_text("def brand_new(a, b, *, c=1):\n    pass\n\ndef _hidden():\n    pass\n")
    (language / "kernel.py").write_text("def Kernel(*blocks, threads=None, brand=None):\n    pass\n")
    discover.api.cache_clear()
    return tmp_path


def test_names_and_signatures(tree: Path) -> None:
    found = discover.find(tree, environ={})
    assert found is not None and found.is_tree and found.version == "0.1.16.dev3"
    api = discover.api(found)
    assert api.has("brand_new") and api.has("Kernel") and not api.has("_hidden")
    assert [p.name for p in api.parameters("Kernel") or ()] == ["blocks", "threads", "brand"]
    assert not api.has("tcgen05_gemm"), "nothing in the sources mentions it"


def test_what_was_read_is_kept_until_the_sources_change(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tree / "3rdparty" / "tilelang" / "tilelang"
    first = trees.load(package, "0.1.16.dev3")
    with monkeypatch.context() as patch:
        patch.setattr(trees, "read_package", lambda *_: pytest.fail("read again"))
        assert trees.load(package, "0.1.16.dev3") == first
    (package / "language" / "new.py").write_text("def other():\n    pass\n")
    assert trees.load(package, "0.1.16.dev3").has("other")


def test_damaged_files_are_read_anew(tree: Path) -> None:
    package = tree / "3rdparty" / "tilelang" / "tilelang"
    first = trees.load(package, "0.1.16.dev3")
    (kept,) = (tree / "cache" / "trees").glob("*.json")
    kept.write_text('{"language": {"x": 3}}')
    assert trees.load(package, "0.1.16.dev3") == first


def test_a_folder_that_cannot_be_written_is_no_fault(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tree / "3rdparty" / "tilelang" / "VERSION"))
    assert trees.load(tree / "3rdparty" / "tilelang" / "tilelang", "0.1.16.dev3").has("brand_new")


def test_builds_of_a_release() -> None:
    for version in ("0.1.9+cu128", "0.1.9"):
        found = discover.InstalledTileLang(version, Path("/nowhere"), "")
        assert found.is_shipped and discover.api(found) is manifest.load("0.1.9")
    assert not discover.InstalledTileLang("0.1.9", Path("/nowhere"), "", True).is_shipped
    assert manifest.is_known("0.1.7.post1") and manifest.is_known("0.1.9+cu128")
    assert not manifest.is_known("9.9.9") and not manifest.is_known("new")


@pytest.mark.parametrize(("text", "lowest"), [("tilelang>=0.1.9\n", "0.1.9"), ("tilelang<0.1.9\n", None), ("tilelang\n", None), ("tilelang==0.1.8\n", "0.1.8")])
def test_lowest_allowed(tmp_path: Path, text: str, lowest: str | None) -> None:
    (tmp_path / "requirements.txt").write_text(text)
    assert discover.lowest_allowed(tmp_path) == lowest
