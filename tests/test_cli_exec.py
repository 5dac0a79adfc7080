"""``tile-lsp exec``: whose arguments are whose, and what a failing script shows."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tile_lsp.cli.main import main


def execute(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tile_lsp", *arguments], capture_output=True, text=True, cwd=folder, check=False)


def test_options_behind_the_script_are_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import sys\nprint(sys.argv)\nsys.exit(7)\n")
    done = execute(tmp_path, "exec", "s.py", "--debug", "-m", "x", "--help")
    assert (done.returncode, done.stdout) == (7, "['s.py', '--debug', '-m', 'x', '--help']\n"), done.stderr


@pytest.mark.parametrize("between", [[], ["--"]])
def test_a_module(tmp_path: Path, between: list[str]) -> None:
    (tmp_path / "mod.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = execute(tmp_path, "exec", *between, "-m", "mod", "-q", "--debug")
    assert (done.returncode, done.stdout) == (0, "['-q', '--debug']\n"), done.stderr


@pytest.mark.parametrize(("script", "trace"), [
    ("def f():\n    raise ValueError('x')\n\nf()\n", '  File "s.py", line 4, in <module>\n    f()\n  File "s.py", line 2, in f\n'), ("def f(:\n", '  File "s.py", line 1\n'),
])
def test_the_trace_is_the_scripts_own(tmp_path: Path, script: str, trace: str) -> None:
    (tmp_path / "s.py").write_text(script)
    done = execute(tmp_path, "exec", "s.py")
    assert done.returncode == 1 and done.stderr.removeprefix("Traceback (most recent call last):\n").startswith(trace)
    assert "runpy" not in done.stderr and "__main__" not in done.stderr


def test_what_is_no_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.ipynb").write_text("{}")
    for name, said in (("n.ipynb", "is a notebook"), ("gone.py", "there is no such file")):
        assert main(["exec", name]) == 2
        assert said in capsys.readouterr().err
