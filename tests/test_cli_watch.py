"""``--watch`` checks again when a file changes, and ends with an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue

import pytest
from cli_support import BAD, GOOD, check

from tile_lsp.cli.checking.watch import _concerns_us


def test_a_change_is_checked(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    (tmp_path / "a.py").write_text(GOOD)
    command = [sys.executable, "-u", "-m", "tile_lsp", "check", "--watch", "--output-format", "concise"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: Queue[str] = Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in running.stdout or ()], daemon=True).start()
    try:
        assert lines.get(timeout=60).startswith("No faults found")
        assert "Watching" in lines.get(timeout=10)
        for number in range(20):  # watching begins a moment after it is announced
            (tmp_path / "a.py").write_text(BAD + f"# {number}\n")
            try:
                line = lines.get(timeout=3)
                break
            except Exception:
                continue
        assert line.startswith("a.py:7:9: error TL901")
    finally:
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(timeout=30) == 0


def test_what_cannot_be_watched(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "standard input" in check(capsys, "--watch", "-")[2]
    assert check(capsys, "--watch", "nowhere/a.py")[0] == 2
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    code, _, err = check(capsys, "--watch")
    assert code == 2 and "pip install 'tilec[watch]'" in err


def test_which_changes_concern_us() -> None:
    root = Path("/home/.hidden/project")
    for name, wanted in (("a.py", True), ("sub/n.ipynb", True), ("tile-lsp.toml", True), ("a.txt", False), (".venv/a.py", False), ("__pycache__/a.py", False)):
        assert _concerns_us(str(root / name), [root]) is wanted
