"""Supervised child processes: whatever becomes of one, the answer says so and the next request works."""
from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from tile_lsp.workers.process import Child

HANDLERS = {"do": "worker_handlers:do"}


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch):
    """Children find the handlers beside this file."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))


def asked(*requests: dict[str, Any], timeout: float = 20.0, echo: list[str] | None = None, reports: list[str] | None = None) -> list[dict[str, Any]]:
    async def ask() -> list[dict[str, Any]]:
        child = Child(HANDLERS, (lambda text: None) if echo is None else echo.append)
        try:
            return [await child.request({"kind": "do", **r}, timeout, None if reports is None else reports.append) for r in requests]
        finally:
            await child.end()

    return asyncio.run(ask())


ECHO = {"what": "echo", "value": 5}


def test_answers_and_progress():
    reports: list[str] = []
    assert asked(ECHO, {"what": "progress"}, reports=reports) == [{"value": 5}, {"done": True}]
    assert reports == ["one", "two"]


def test_one_process_answers_all_requests():
    first, second = asked({"what": "pid"}, {"what": "pid"})
    assert first == second and first["pid"] != os.getpid()


@pytest.mark.parametrize("how, said", [("segfault", "SIGSEGV"), ("abort", "SIGABRT"), ("exit", "exit code 3: goodbye")])
def test_a_crash_is_named_and_the_next_request_works(how, said):
    crash, after = asked({"what": how}, ECHO)
    assert said in crash["error"] and after == {"value": 5}


def test_an_endless_loop_is_ended():
    stuck, after = asked({"what": "loop"}, ECHO, timeout=1.5)
    assert "longer than" in stuck["error"] and after == {"value": 5}


def test_printing_megabytes_is_bounded_and_no_answer():
    echo: list[str] = []
    reply, after = asked({"what": "print"}, ECHO, echo=echo)
    assert reply == {"printed": True} and after == {"value": 5}
    assert sum(map(len, echo)) < 1 << 20 and "not shown" in "".join(echo)


def test_an_exception_is_one_line():
    reply, after = asked({"what": "raise"}, ECHO)
    assert "ZeroDivisionError" in reply["error"] and "Traceback" not in reply["error"] and after == {"value": 5}


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is watched through /proc")
def test_memory_is_limited(monkeypatch):
    monkeypatch.setenv("TILE_LSP_WORKER_MEMORY_MB", "300")
    reply, after = asked({"what": "memory"}, ECHO)
    assert "MiB" in reply["error"] and after == {"value": 5}


def test_cancelling_ends_the_process():
    async def cancelled() -> dict[str, Any]:
        child = Child(HANDLERS, lambda text: None)
        task = asyncio.ensure_future(child.request({"kind": "do", "what": "loop"}, 60.0))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        try:
            return await child.request({"kind": "do", **ECHO}, 20.0)
        finally:
            await child.end()

    assert asyncio.run(cancelled()) == {"value": 5}


def test_files_of_the_working_folder_do_not_stand_in_for_pythons(tmp_path, monkeypatch):
    (tmp_path / "types.py").write_text("raise SystemExit('the wrong types')\n")
    monkeypatch.chdir(tmp_path)
    assert asked(ECHO) == [{"value": 5}]


@pytest.mark.parametrize("moment", [0.0, 0.001, 0.004, 0.01, 0.03, 0.1, 0.3])
@pytest.mark.parametrize("how", ["cancelled", "ended", "killed"])
def test_leaving_at_every_moment_of_a_start_ends_and_leaves_nothing(how, moment):
    """asyncio waits for ever where the start of a process is cancelled at the wrong moment (CPython 3.11)."""
    started: list[int] = []

    async def leave() -> list[dict[str, Any]]:
        child = Child(HANDLERS, lambda text: None)
        task = asyncio.ensure_future(child.request({"kind": "do", "what": "loop"}, 60.0))
        while child._starting is None:
            await asyncio.sleep(0)
        await asyncio.sleep(moment)
        if how == "cancelled":
            task.cancel()
        elif how == "ended":
            await child.end()
        else:
            child.kill()
        answer = (await asyncio.gather(task, return_exceptions=True))[0]
        after = await child.request({"kind": "do", **ECHO}, 20.0)
        started.append(child._process.pid)
        await child.end()
        return [answer, after]

    async def bounded() -> list[dict[str, Any]]:
        return await asyncio.wait_for(leave(), 60)

    answer, after = asyncio.run(bounded())
    assert after == {"value": 5} and (isinstance(answer, asyncio.CancelledError) or "error" in answer)
    assert not os.path.exists(f"/proc/{started[0]}")
