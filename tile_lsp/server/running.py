"""Runs of kernels with progress and cancel; the result goes into the lens, the history and, if it failed, the diagnostics."""
from __future__ import annotations

import asyncio
import uuid
from typing import Any

from lsprotocol import types

from ..ide import history, runs
from ..ide.snapshot import Snapshot
from .app import TileServer

ALL = ("interpreter", "reference")  # what Compare compares with when nothing else is said


async def run(server: TileServer, uri: str, snapshot: Snapshot, kernel: str, instance: str, target: str, against: str = "auto") -> dict[str, Any] | None:
    """Run a kernel; one run of a kernel at a time. The answer is the run's JSON, None when it was cancelled."""
    session = server.session(uri)
    if kernel in session.running:
        server.say(f"{kernel} is already running.")
        return None
    progress = await Progress.begin(server, f"Running {instance}")
    task = asyncio.ensure_future(server.compiler.run(snapshot, kernel, instance, target or snapshot.preferences.run_target,
                                                     snapshot.preferences.run_timeout, progress.report, against))
    data = await _supervised(server, session, kernel, instance, task, progress)
    if data is None:
        return None
    keep(server, session, snapshot, kernel, instance, data)
    _tell(server, runs.message(kernel, data), bool(data.get("ok")))
    return data


def _tell(server: TileServer, text: str, ok: bool) -> None:
    """How a run ended. A good result stands in the lens: where the client draws that anew, nothing need lie over the code as well."""
    if ok and server.client.can("code_lens", "refresh_support"):
        server.window_log_message(types.LogMessageParams(type=types.MessageType.Info, message=text))
    else:
        server.say(text, types.MessageType.Info if ok else types.MessageType.Error)


async def compare(server: TileServer, uri: str, snapshot: Snapshot, kernel: str, instance: str, target: str, against: str) -> dict[str, Any] | None:
    """Run a kernel once for each oracle; the answer has all results."""
    session = server.session(uri)
    if kernel in session.running:
        server.say(f"{kernel} is already running.")
        return None
    progress = await Progress.begin(server, f"Comparing {instance}")
    task = asyncio.ensure_future(_compare(server, snapshot, kernel, instance, target, [against] if against else list(ALL), progress))
    rows = await _supervised(server, session, kernel, instance, task, progress)
    if rows is None:
        return None
    keep(server, session, snapshot, kernel, instance, next((r for r in rows if not r.get("ok")), rows[0]))
    ok = all(r.get("ok") for r in rows)
    server.say(f"{instance}\n{runs.comparison(rows)}", types.MessageType.Info if ok else types.MessageType.Error)
    return {"ok": ok, "kernel": kernel, "instance": instance, "results": rows}


async def _compare(server: TileServer, snapshot: Snapshot, kernel: str, instance: str, target: str, oracles: list[str], progress: Progress) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for oracle in oracles:
        def report(text: str, oracle: str = oracle) -> None:
            progress.report(f"{oracle}: {text}")

        data = await server.compiler.run(snapshot, kernel, instance, target or snapshot.preferences.run_target, snapshot.preferences.run_timeout, report, oracle)
        if len(oracles) > 1 and data.get("ran") is False and "no reference function" in str(data.get("error")):
            continue  # nothing of the kind in this file
        rows.append({**data, "against": data.get("against") or oracle})
    return rows


async def _supervised(server: TileServer, session: Any, kernel: str, instance: str, task: asyncio.Future, progress: Progress) -> Any:
    """Wait for a run with its progress shown; None when it was cancelled."""
    progress.cancel_with(task)
    session.running[kernel] = task
    server.client.refresh_lenses()
    try:
        return await task
    except asyncio.CancelledError:
        task.cancel()
        server.say(f"The run of {instance} was cancelled.")
        return None
    finally:
        session.running.pop(kernel, None)
        progress.end()
        server.client.refresh_lenses()


def keep(server: TileServer, session: Any, snapshot: Snapshot, kernel: str, instance: str, data: dict[str, Any]) -> None:
    """The result goes into the lens, the history and the diagnostics; the document may have been closed, and opened again, meanwhile."""
    session = server.sessions.get(session.uri, session)
    path, key = snapshot.document.path, (kernel, instance)
    data = {**data, "kernel": kernel, "instance": instance}  # as the document calls them
    earlier = [r for r in server.history.runs(path, kernel, instance, str(data.get("target") or "")) if r.get("latency_ms")]
    shown_before = key in session.results and _is_shown(session.results[key].data)
    session.results[key] = runs.RunResult(data, snapshot.document.key, history.change(earlier[-1] if earlier else None, data))
    server.history.add(path, data)
    server.client.refresh_lenses()
    server.protocol.notify("tile-lsp/ran", {"uri": session.uri, "kernel": kernel})
    if shown_before or _is_shown(data):
        server.schedule(session, 0.0)
        if server.pulls:
            server.client.refresh()


def _is_shown(data: dict[str, Any]) -> bool:
    """Whether a result has something for the list of problems."""
    return not data.get("ok") or bool(data.get("remarks"))


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
