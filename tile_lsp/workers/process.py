"""A supervised child process that answers requests: limits on time and output, replaced when it dies, hangs or is cancelled."""
from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HANDLERS = {"lower": "tile_lsp.ide.lowering:answer", "warm": "tile_lsp.workers.child:warm", "run": "tile_lsp.ide.execution:answer",
            "prepare": "tile_lsp.ide.execution:prepare"}

_LINE_LIMIT = 64 * 1024 * 1024  # bytes of one answer
_ECHO_LIMIT = 256 * 1024  # bytes of what a child prints that are passed on, a request
_TAIL = 4096  # bytes of it that are kept, to tell why a child ended
# Not `-m`: that would put the working folder first on the search path, where a user's `types.py` would stand in for Python's.
_START = ("import json, sys; paths, handlers = json.loads(sys.argv[1]); sys.path[:] = [p for p in sys.path if p] + paths; "
          "from tile_lsp.workers.child import main; main(handlers)")


class Child:
    """It is started on demand and killed when an answer is not waited for any more. One request at a time."""

    def __init__(self, handlers: Mapping[str, str] | None = None, echo: Callable[[str], None] | None = None) -> None:
        self._handlers = dict(HANDLERS if handlers is None else handlers)
        self._echo = echo or _to_stderr
        self._process: asyncio.subprocess.Process | None = None
        self._turn: asyncio.Lock | None = None
        self._printed: _Printed | None = None
        self._killed: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None  # never cancelled: asyncio then waits for ever (CPython 3.11)

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None = None) -> dict[str, Any]:
        """The answer, or ``{"error": ...}`` telling what became of the process."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            try:
                reply = await asyncio.wait_for(self._exchange(request, report), timeout)
            except (TimeoutError, asyncio.TimeoutError):
                await self.end()
                return {"error": f"it took longer than {timeout:g} s and was ended", "timed_out": True}
            except (ConnectionError, EOFError):
                return {"error": f"the process that did it ended ({await self._how_it_ended()}); the next request starts a new one"}
            except ValueError:  # readline: the line is longer than the limit; json: no line of ours
                await self.end()
                return {"error": f"its answer is longer than {_LINE_LIMIT >> 20} MiB or damaged; it was ended"}
            except asyncio.CancelledError:
                self.kill()
                raise
            if reply.pop("end", False):
                await self.end()
            return reply

    async def _exchange(self, request: dict[str, Any], report: Callable[[str], None] | None) -> dict[str, Any]:
        process = await self._started()
        assert process.stdin is not None and process.stdout is not None
        if self._printed is not None:
            self._printed.passed_on = 0
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
            self._starting = asyncio.get_running_loop().create_task(asyncio.create_subprocess_exec(
                sys.executable, "-c", _START, json.dumps([_search_path(), self._handlers]), stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, limit=_LINE_LIMIT, start_new_session=True))
            self._process = await asyncio.shield(self._starting)
            self._starting = None
            assert self._process.stderr is not None
            self._printed = _Printed(self._echo)
            self._printed.task = asyncio.get_running_loop().create_task(self._printed.follow(self._process.stderr))
        return self._process

    async def _how_it_ended(self) -> str:
        process, self._process = self._process, None
        if process is None:
            return "for an unknown reason"
        code = await process.wait()
        if code >= 0:
            last = await self._printed.last_line() if self._printed is not None else ""
            return f"exit code {code}" + (f": {last}" if last else "")
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"

    async def end(self) -> None:
        """End the process and wait until it is gone."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
        self.kill()
        if self._killed is not None:
            await self._killed.wait()
        if self._printed is not None and self._printed.task is not None:
            await asyncio.wait([self._printed.task], timeout=1.0)

    def kill(self) -> None:
        """End the process and what it started."""
        if self._starting is not None:
            starting, self._starting = self._starting, None
            if starting.done():
                self._born_in_vain(starting)
            else:
                starting.add_done_callback(self._born_in_vain)
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            self._end(process)

    def _born_in_vain(self, starting: asyncio.Task[asyncio.subprocess.Process]) -> None:
        if not starting.cancelled() and starting.exception() is None:
            self._end(starting.result())

    def _end(self, process: asyncio.subprocess.Process) -> None:
        self._killed = process
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError, PermissionError):
            process.kill()


class _Printed:
    """What a child prints: passed on up to a limit, its end remembered."""

    def __init__(self, echo: Callable[[str], None]):
        self._echo = echo
        self._tail = b""
        self.passed_on = 0
        self.task: asyncio.Task[None] | None = None

    async def follow(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(64 * 1024):
            self._tail = (self._tail + chunk)[-_TAIL:]
            room = _ECHO_LIMIT - self.passed_on
            if room > 0:
                self._echo(chunk[:room].decode("utf-8", "replace"))
                if len(chunk) >= room:
                    self._echo("\n[further output is not shown]\n")
            self.passed_on += len(chunk)

    async def last_line(self) -> str:
        if self.task is not None:
            await asyncio.wait([self.task], timeout=1.0)
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""


def _to_stderr(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # whoever read it is gone


def _search_path() -> list[str]:
    """Where this process found its own packages, for a checkout that is run without being installed."""
    found = [str(Path(__file__).resolve().parent.parent.parent)]
    spec = importlib.util.find_spec("tilec")
    if spec is not None and spec.origin:
        found.append(str(Path(spec.origin).resolve().parent.parent))
    return found
