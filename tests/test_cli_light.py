"""``tile-lsp check`` stays light: what it imports, and what it imports when it knows everything already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import BAD

HEAVY = ("tvm", "tvm_ffi", "torch", "numpy", "pygls", "lsprotocol", "asyncio")
PROGRAM = """
import sys
from tile_lsp.cli.main import main
code = main(sys.argv[1:])
print("modules:", *sorted(sys.modules))
raise SystemExit(code)
"""


def imported(folder: Path, *arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "check", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.rpartition("modules: ")[2].split())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "a.py").write_text(BAD)
    return tmp_path


@pytest.mark.parametrize("name", ["full", "sarif", "junit"])
def test_a_check_loads_nothing_heavy(folder: Path, name: str) -> None:
    assert not imported(folder, "a.py", "--output-format", name).intersection(HEAVY)


def test_what_is_known_needs_no_evaluator(folder: Path) -> None:
    assert "tilec.evaluate" in imported(folder, "a.py")
    again = imported(folder, "a.py")
    assert not {m for m in again if m.startswith(("tilec.evaluate", "tilec.ir", "tilec.check.checker", "multiprocessing", "rich"))}


def test_files_without_kernels_need_no_evaluator(folder: Path) -> None:
    (folder / "a.py").write_text("print('hello')\n")
    assert "tilec.evaluate" not in imported(folder, "--no-cache")
