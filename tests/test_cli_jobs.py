"""Checking in several processes: the same answer, and no crash, hang or interrupt that hurts more than its file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import BAD, GOOD, check

from tile_lsp.cli.checking import pool, single


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for i in range(8):
        (tmp_path / f"k{i}.py").write_text((BAD if i % 3 == 0 else GOOD) + "#" * 100 * (i % 4) + "\n")
    return tmp_path


def test_the_order_does_not_depend_on_the_processes(capsys) -> None:
    one = check(capsys, "--no-cache", "--jobs", "1", "--output-format", "concise")
    assert one[0] == 1
    assert check(capsys, "--no-cache", "--jobs", "3", "--output-format", "concise") == one
    assert check(capsys, "--jobs", "0")[0] == 2


def sabotage(monkeypatch: pytest.MonkeyPatch, name: str, act) -> None:
    real = single.check_file
    monkeypatch.setattr(single, "check_file", lambda job: act() if job.name == name else real(job))
    monkeypatch.setattr(pool, "_start_method", lambda: "fork")  # so that the workers have the sabotage too


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
@pytest.mark.parametrize(("act", "word"), [(lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"), (lambda: os._exit(7), "status 7")])
def test_a_crash_names_its_file(capsys, monkeypatch: pytest.MonkeyPatch, act, word: str) -> None:
    sabotage(monkeypatch, "k4.py", act)
    code, out, err = check(capsys, "--no-cache", "--jobs", "2", "--output-format", "concise")
    assert code == 2
    assert "k4.py: the process that checked it ended" in err and word in err
    assert [line.split(":")[0] for line in out.splitlines()[:-1]] == ["k0.py", "k3.py", "k6.py"]


@needs_fork
def test_a_file_that_takes_too_long(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SECONDS_A_FILE", 0.5)
    sabotage(monkeypatch, "k4.py", lambda: time.sleep(60))
    code, _, err = check(capsys, "--no-cache", "--jobs", "2", "--output-format", "concise")
    assert code == 2 and "k4.py: took more than" in err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_fault_of_ours_costs_the_file_alone(capsys, monkeypatch: pytest.MonkeyPatch, jobs: str) -> None:
    def fail():
        raise ZeroDivisionError("division by zero")

    sabotage(monkeypatch, "k4.py", fail)
    code, out, err = check(capsys, "--no-cache", "--jobs", jobs, "--output-format", "concise")
    assert code == 2
    assert "k4.py: unexpected error, ZeroDivisionError: division by zero" in err and "Traceback" not in err
    assert out.count("TL901") == 3


def test_a_fault_of_ours_in_many_files_is_told_once(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single, "check_file", lambda job: 1 // 0)
    code, out, err = check(capsys, "--no-cache", "--jobs", "1")
    assert (code, out) == (2, "Nothing was checked.\n")
    assert err.startswith("tile-lsp: k0.py (and 7 other files): unexpected error, ZeroDivisionError") and len(err.splitlines()) == 1


def test_a_bar_for_people_who_wait(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    from tile_lsp.cli.checking import gather

    check(capsys, "--no-cache", "--jobs", "1")
    assert capsys.readouterr().err == "", "no terminal, no bar"
    monkeypatch.setattr(gather, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    _, out, err = check(capsys, "--no-cache", "--jobs", "1", "--output-format", "concise")
    assert "checking" in err and "/8" in err and "checking" not in out


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_all_processes(folder: Path) -> None:
    for i in range(200):
        (folder / f"more{i}.py").write_text(GOOD + f"# {i}\n")
    running = subprocess.Popen([sys.executable, "-m", "tile_lsp", "check", "--no-cache", "--jobs", "2"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    deadline = time.monotonic() + 30
    while children.is_file() and len(children.read_text().split()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in out + err
    assert not alive(running.pid)


def alive(group: int) -> bool:
    """Whether processes of a group are left after a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    return True
