"""Results of earlier checks: used while nothing has changed, never otherwise, and never in the way."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, check

from tile_lsp.cli.checking import cache, pool

HELPER = "from helper import SIZE\n" + GOOD.replace("(128,)", "(SIZE,)")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "project"


def settle(folder: Path) -> None:
    """Make the files old enough for their times to be trusted."""
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "check", lambda job: pytest.fail(f"{job.path} was checked again"))


def test_nothing_is_checked_twice(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.py").write_text(BAD)
    (folder / "b.py").write_text(HELPER)
    (folder / "helper.py").write_text("SIZE = 128\n")
    first = check(capsys)
    settle(folder)
    assert check(capsys) == first, "by content"
    refuse(monkeypatch)
    monkeypatch.setattr(cache, "digest_of", lambda data: pytest.fail("read again"))
    assert check(capsys) == first, "by size and time"


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.py", BAD), ("helper.py", "SIZE = -3\n"), ("helper.py", None), ("pyproject.toml", '[tool.tile-lsp]\nignore = ["TL"]\n')],
)
def test_what_a_result_depends_on(folder: Path, capsys, name: str, text: str | None) -> None:
    (folder / "a.py").write_text(HELPER)
    (folder / "helper.py").write_text("SIZE = 128\n")
    settle(folder)
    before = check(capsys, "--output-format", "json", "a.py", "--statistics")
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)
    changed = check(capsys, "--output-format", "json", "a.py", "--statistics")
    assert changed == check(capsys, "--output-format", "json", "a.py", "--statistics", "--no-cache")
    assert changed != before or name == "pyproject.toml"


def test_a_module_that_appears(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(HELPER)
    settle(folder)
    assert "0 of 1" in check(capsys, "--statistics")[1]
    (folder / "helper.py").write_text("SIZE = 128\n")
    assert "1 of 1" in check(capsys, "--statistics")[1]


def test_a_change_within_the_clock_of_the_file_system(folder: Path, capsys) -> None:
    """Same size and same time: the file was too new to trust its time."""
    file = folder / "a.py"
    file.write_text(GOOD + "# " + " " * (len(BAD) + 20 - len(GOOD)) + "\n")
    size, when = file.stat().st_size, file.stat().st_mtime_ns
    assert check(capsys)[0] == 0
    file.write_text(BAD + "#" * (size - len(BAD) - 1) + "\n")
    os.utime(file, ns=(when, when))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (size, when)
    assert check(capsys)[0] == 1


@pytest.mark.parametrize("option", [("--target", "sm_90a"), ("--tilelang-version", "0.1.8"), ("--select", "TL901"), ("--instance", "main()")])
def test_options_have_results_of_their_own(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch, option: tuple[str, str]) -> None:
    (folder / "a.py").write_text(GOOD)
    check(capsys)
    checked = []
    monkeypatch.setattr(pool, "check", lambda job, real=pool.check: checked.append(job.path) or real(job))
    check(capsys, *option)
    assert checked == ["a.py"]


def test_no_cache_and_cache_dir(folder: Path, capsys) -> None:
    (folder / "a.py").write_text(GOOD)
    check(capsys, "--no-cache")
    assert not (folder.parent / "cache").exists()
    check(capsys, "--cache-dir", "kept")
    assert (folder / "kept" / cache.NAME).is_file() and not (folder.parent / "cache").exists()
    (folder / "tile-lsp.toml").write_text('cache-dir = "configured"\n')
    check(capsys)
    assert (folder / "configured" / cache.NAME).is_file()
    assert check(capsys, "--no-cache", "--cache-dir", "x")[0] == 2


def test_xdg(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILE_LSP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    (folder / "a.py").write_text(GOOD)
    check(capsys)
    assert (folder / "xdg" / "tile-lsp" / cache.NAME).is_file()


def damage_rows(file: Path) -> None:
    with sqlite3.connect(file) as db:
        db.execute("UPDATE results SET payload = substr(payload, 1, 40)")


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: f.write_bytes(b"no database at all" * 100),
        lambda f: f.write_bytes(f.read_bytes()[:5000]),
        lambda f: f.write_bytes(f.read_bytes()[:4096] + b"\xff" * 8192),
        damage_rows,
        lambda f: (f.unlink(), f.mkdir()),
    ],
)
def test_damage_is_no_fault(folder: Path, capsys, damage) -> None:
    (folder / "a.py").write_text(BAD)
    first = check(capsys)
    damage(folder.parent / "cache" / cache.NAME)
    assert check(capsys) == first
    assert check(capsys) == first


def test_a_locked_or_forbidden_file_is_no_fault(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.py").write_text(BAD)
    first = check(capsys)
    db = sqlite3.connect(folder.parent / "cache" / cache.NAME)
    db.execute("BEGIN EXCLUSIVE")
    assert check(capsys) == first
    db.close()
    monkeypatch.setenv("TILE_LSP_CACHE_DIR", str(folder / "a.py"))
    assert check(capsys) == first


def test_the_file_is_bounded(folder: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(20):
        (folder / f"k{i}.py").write_text(BAD)
    check(capsys, "--jobs", "1")
    file = folder.parent / "cache" / cache.NAME
    monkeypatch.setattr(cache, "MAX_BYTES", file.stat().st_size - 1)
    (folder / "new.py").write_text(BAD)
    check(capsys, "--jobs", "1")
    with sqlite3.connect(file) as db:
        assert 0 < db.execute("SELECT COUNT(*) FROM results").fetchone()[0] <= 11


def test_processes_share_it(folder: Path) -> None:
    for i in range(6):
        (folder / f"k{i}.py").write_text(BAD)
    command = [sys.executable, "-m", "tile_lsp", "check", "--output-format", "concise", "--jobs", "1"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [p.communicate() for p in running]
    assert {p.returncode for p in running} == {1}
    assert len({out for out, _ in outputs}) == 1 and all(err == "" for _, err in outputs)
