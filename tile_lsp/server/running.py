"""Runs of kernels with progress and cancel; the result goes into the lens."""
from __future__ import annotations

import asyncio
import uuid
from typing import Any

from lsprotocol import types

from ..ide import runs
from ..ide.snapshot import Snapshot
from .app import TileServer


async def run(server: TileServer, uri: str, snapshot: Snapshot, kernel: str, instance: str, target: str) -> dict[str, Any] | None:
    """Run a kernel; one run of a kernel at a time. The answer is the run's JSON, None when it was cancelled."""
    session = server.session(uri)
    if kernel in session.running:
        server.say(f"{kernel} is already running.")
        return None
    progress = await Progress.begin(server, f"Running {instance}")
    task = asyncio.ensure_future(server.compiler.run(snapshot, kernel, instance, target or server.preferences.run_target,
                                                     server.preferences.run_timeout, progress.report))
    progress.cancel_with(task)
    session.running[kernel] = task
    server.refresh_lenses()
    try:
        data = await task
    except asyncio.CancelledError:
        if not task.cancelled() or asyncio.current_task() is None:
            task.cancel()
        server.say(f"The run of {instance} was cancelled.")
        return None
    finally:
        session.running.pop(kernel, None)
        progress.end()
        server.refresh_lenses()
    session.results[kernel] = runs.RunResult(data, snapshot.document.key)
    server.say(runs.message(kernel, data), types.MessageType.Info if data.get("ok") else types.MessageType.Error)
    server.refresh_lenses()
    return data


class Progress:
    """Work-done progress that the user can cancel; does nothing for a client without it."""

    def __init__(self, server: TileServer, token: str | None):
        self._server = server
        self._token = token

    @classmethod
    async def begin(cls, server: TileServer, title: str) -> Progress:
        window = server.client_capabilities.window
        if window is None or not window.work_done_progress:
            return cls(server, None)
        token = str(uuid.uuid4())
        try:
            await server.work_done_progress.create_async(token)
        except Exception:
            return cls(server, None)  # the client refused: run without
        server.work_done_progress.begin(token, types.WorkDoneProgressBegin(title=title, cancellable=True))
        return cls(server, token)

    def cancel_with(self, task: asyncio.Future) -> None:
        """The user's cancel ends the task."""
        if self._token is not None:
            self._server.work_done_progress.tokens[self._token].add_done_callback(lambda f: task.cancel() if f.cancelled() else None)

    def report(self, message: str) -> None:
        if self._token is not None:
            self._server.work_done_progress.report(self._token, types.WorkDoneProgressReport(message=message, cancellable=True))

    def end(self) -> None:
        if self._token is not None:
            self._server.work_done_progress.end(self._token, types.WorkDoneProgressEnd())
            self._server.work_done_progress.tokens.pop(self._token, None)
