"""The compile and run processes of the server: one request at a time each, replaced when they die, hang or are cancelled."""
from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

_LINE_LIMIT = 64 * 1024 * 1024  # bytes of one answer
_MODULE = "tile_lsp.server.child"


class WorkerBackend:
    """``lower`` and ``warm`` go to one child, ``run`` to another: a run must not hold up hovers."""

    def __init__(self) -> None:
        self._children = {"compile": Child(), "run": Child()}

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None = None) -> dict[str, Any]:
        return await self._children["run" if request["kind"] == "run" else "compile"].request(request, timeout, report)

    def close(self) -> None:
        for child in self._children.values():
            child.kill()


class Child:
    """A process that answers JSON lines. It is started on demand and killed when an answer is not waited for any more."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn: asyncio.Lock | None = None

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None) -> dict[str, Any]:
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            try:
                return await asyncio.wait_for(self._exchange(request, report), timeout)
            except (TimeoutError, asyncio.TimeoutError):
                self.kill()
                return {"error": f"it took longer than {timeout:.0f} s and was ended"}
            except (ConnectionError, EOFError):
                return {"error": f"the process that did it ended ({await self._how_it_ended()}); the next request starts a new one"}
            except asyncio.CancelledError:
                self.kill()
                raise

    async def _exchange(self, request: dict[str, Any], report: Callable[[str], None] | None) -> dict[str, Any]:
        process = await self._started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        while True:
            line = await process.stdout.readline()
            if not line:
                raise EOFError
            answer = json.loads(line)
            if "progress" not in answer:
                return answer
            if report is not None:
                report(str(answer["progress"]))

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", _MODULE, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LINE_LIMIT,
                start_new_session=True)
        return self._process

    async def _how_it_ended(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "for an unknown reason"
        code = await process.wait()
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"

    async def end(self) -> None:
        """End the process and wait until it is gone."""
        process = self._process
        self.kill()
        if process is not None:
            await process.wait()

    def kill(self) -> None:
        """End the process and what it started."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError, PermissionError):
            process.kill()
