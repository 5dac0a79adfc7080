"""TileLang's releases: manifests, history, version arithmetic, static reading of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tile_lsp.releases import history, manifest
from tile_lsp.releases.static_names import read_package
from tile_lsp.releases.versions import matches, sort_key


def test_eleven_releases_in_order() -> None:
    assert manifest.versions()[0] == "0.1.5"
    assert manifest.latest() == "0.1.15"
    assert len(manifest.versions()) == 11
    assert list(manifest.versions()) == sorted(manifest.versions(), key=sort_key)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("0.1.15", "0.1.15"),
        ("0.1.7", "0.1.7.post3"),
        ("0.1.6", "0.1.6.post2"),
        ("0.1.99", "0.1.15"),
        ("0.0.1", "0.1.5"),
        ("latest", "0.1.15"),
        ("0.1.15+cu128", "0.1.15"),
    ],
)
def test_nearest(asked: str, given: str) -> None:
    assert manifest.load(asked).version == given


def test_no_version_number() -> None:
    with pytest.raises(ValueError, match="no version number"):
        manifest.load("newest")


def test_tcgen05_gemm_by_release() -> None:
    assert not manifest.load("0.1.8").has("tcgen05_gemm")
    assert manifest.load("0.1.9").has("tcgen05_gemm")
    assert manifest.load("0.1.15").has("tcgen05_gemm")
    assert history.added_in("tcgen05_gemm") == "0.1.9"
    replacement = manifest.load("0.1.8").replacement("tcgen05_gemm")
    assert replacement is not None
    assert (replacement.text, replacement.rename) == ("T.gemm(A, B, C, mbar=mbar)", "gemm")


def test_parameters_with_kinds_and_defaults() -> None:
    parameters = {p.name: p for p in manifest.load("0.1.15").parameters("copy") or ()}
    assert parameters["src"].kind == "positional_or_keyword"
    assert not parameters["src"].has_default
    assert parameters["coalesced_width"].kind == "keyword_only"
    assert parameters["coalesced_width"].default == "None"


def test_every_signature_parses() -> None:
    for version in manifest.versions():
        loaded = manifest.load(version)
        for module in ("tilelang.language", "tilelang"):
            for name in loaded.table(module):
                loaded.parameters(name, module)


def test_history_of_parameters() -> None:
    assert history.parameter_removed_in("gemm", "k_pack", "0.1.15") == "0.1.15"
    assert history.parameter_removed_in("gemm", "k_pack", "0.1.14") is None
    assert history.parameter_added_in("Kernel", "cluster_dims", "0.1.13") == "0.1.15"
    assert history.parameter_added_in("Kernel", "cluster_dims", "0.1.15") is None


@pytest.mark.parametrize(
    ("version", "specifiers", "fits"),
    [
        ("0.1.8", ">=0.1.8,<0.2", True),
        ("0.1.10", ">=0.1.9", True),
        ("0.1.10", "<0.1.9", False),
        ("0.1.7.post3", "==0.1.7", False),
        ("0.1.7.post3", "==0.1.7.*", True),
        ("0.1.15", "~=0.1.8", True),
        ("0.2.0", "~=0.1.8", False),
        ("0.1.15", "!=0.1.15", False),
        ("0.1.15", "", True),
    ],
)
def test_specifiers(version: str, specifiers: str, fits: bool) -> None:
    assert matches(version, specifiers) is fits


def write_package(root: Path) -> Path:
    package = root / "tilelang"
    (package / "language").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "language" / "__init__.py").write_text(
        "from .ops import *\nfrom .ops import brand_new as renamed\nfrom tvm.tir import exp\n"
    )
    (package / "language" / "ops.py").write_text(
        "__all__ = ['copy', 'brand_new']\ndef copy(src, dst, *, width=None): ...\ndef brand_new(x): ...\n"
        "def hidden(): ...\n"
    )
    return package


def test_unknown_release_is_read_from_its_sources(tmp_path: Path) -> None:
    read = read_package(write_package(tmp_path), "0.9.0")
    assert read is not None
    assert read.version == "0.9.0"
    assert read.has("brand_new")
    assert read.has("renamed")
    assert not read.has("hidden")
    assert not read.has("gemm"), "nothing in these sources mentions gemm"
    assert [p.name for p in read.parameters("copy") or ()] == ["src", "dst", "width"]
