"""Where caches are kept."""
from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tilec.build.cache import cache_directory
from tilec.folders import user_cache

from tile_lsp.ide import history
from tile_lsp.releases import storage
from tile_lsp.server import lowered_files

pytestmark = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the variable is of Linux")
FOLDERS = [cache_directory, storage.cache_folder, history.folder, lowered_files.folder]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TILELANG_CACHE_DIR", "TILE_LSP_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_variable_names_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "elsewhere"))
    assert user_cache() == home / "elsewhere"
    assert [folder().relative_to(home / "elsewhere") for folder in FOLDERS] == [Path("tilec"), Path("tile-lsp"), Path("tile-lsp/runs"), Path("tile-lsp/lowered")]


@pytest.mark.parametrize("value", [None, "", "cache", "./cache"])
def test_no_cache_appears_where_one_works(value: str | None, home: Path, monkeypatch: pytest.MonkeyPatch):
    if value is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert user_cache() == home / ".cache"
    assert all(folder().is_relative_to(home / ".cache") for folder in FOLDERS)


def test_a_folder_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(home / "own"))
    assert [folder() for folder in FOLDERS[1:]] == [home / "own", home / "own" / "runs", home / "own" / "lowered"]
