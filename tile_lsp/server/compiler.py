"""Lowering and running through the workers, with a memory of lowered texts. TVM and torch live in the workers alone."""
from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from typing import Any, Protocol

from ..ide.lowered import LoweredView, view_from_reply
from ..ide.preferences import Preferences
from ..ide.snapshot import Snapshot
from ..ide.targets import lowering_target

log = logging.getLogger("tile_lsp")
_KEPT = 128  # lowered texts remembered
LOWER_TIMEOUT = 60.0
_Key = tuple[Hashable, str, str, str, str]  # what it comes from, kernel, instance, target, stage


class Backend(Protocol):
    """What answers requests: ``{"kind": "lower" | "run" | "warm" | "prepare", ...} -> {...} | {"error": ...}``. Cancelling the call ends the work."""

    async def request(self, request: dict[str, Any], timeout: float, report: Callable[[str], None] | None = None) -> dict[str, Any]: ...

    def close(self) -> None: ...


class Compiler:
    def __init__(self, backend: Backend | None = None):
        self._given = backend
        self.executor: Executor | None = None  # where questions about documents are answered
        self._views: OrderedDict[_Key, LoweredView] = OrderedDict()
        self._pending: dict[_Key, asyncio.Task[LoweredView]] = {}
        self._warming: asyncio.Task | None = None

    @property
    def backend(self) -> Backend:
        if self._given is None:
            from .backend import WorkerBackend

            self._given = WorkerBackend()
        return self._given

    def prepare_for(self, snapshot: Snapshot) -> None:
        """Start the processes that lower and run kernels for a document that has some, before somebody asks: the run worker needs seconds
        to import torch. Nothing of the user's is executed."""
        if self._warming is None and snapshot.kernels and not snapshot.preferences.excluded:
            self._warming = asyncio.get_running_loop().create_task(self._prepare(snapshot.preferences))

    async def _prepare(self, chosen: Preferences) -> None:
        wanted = [{"kind": "warm"}] if chosen.lowered_in_hover else []
        if chosen.prepare_runs:
            wanted.append({"kind": "prepare", "target": chosen.run_target})
        for request in wanted:
            try:
                await self.backend.request(request, LOWER_TIMEOUT)
            except Exception:
                log.exception("a worker did not start")

    async def lower(self, snapshot: Snapshot, kernel: str, instance: str, target: str, stage: str) -> LoweredView:
        """A stage of a kernel. Several requests for the same text share one piece of work."""
        loop = asyncio.get_running_loop()
        target, text = await loop.run_in_executor(self.executor, _target_and_text, snapshot, kernel, instance, target)
        key = (text, kernel, instance, target, stage)
        if key in self._views:
            self._views.move_to_end(key)
            return self._views[key]
        if key not in self._pending:
            task = loop.create_task(self._lower(snapshot, kernel, instance, target, stage))
            self._pending[key] = task
            task.add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._pending[key])

    def known(self) -> list[tuple[_Key, LoweredView]]:
        """What has been lowered so far."""
        return list(self._views.items())

    def _finished(self, key: _Key, task: asyncio.Task[LoweredView]) -> None:
        self._pending.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if not task.result().error:  # a failure may pass: a worker that was short of memory, an extra installed since
            self._views[key] = task.result()
            while len(self._views) > _KEPT:
                self._views.popitem(last=False)

    async def _lower(self, snapshot: Snapshot, kernel: str, instance: str, target: str, stage: str) -> LoweredView:
        document = snapshot.document
        request = {"kind": "lower", "path": document.path, "text": document.normalized, "kernel": kernel, "instance": instance,
                   "target": target, "stage": stage}
        try:
            reply = await self.backend.request(request, LOWER_TIMEOUT)
        except Exception as error:
            log.exception("lowering failed")
            reply = {"error": f"the compile worker could not answer ({type(error).__name__}: {error})"}
        return view_from_reply(reply, kernel, instance, target, stage)

    async def run(self, snapshot: Snapshot, kernel: str, instance: str, target: str, timeout: float,
                  report: Callable[[str], None] | None = None, against: str = "auto") -> dict[str, Any]:
        """Run a kernel; the JSON of ``tile-lsp run``, whose ``error`` tells what went wrong and ``place`` where."""
        document = snapshot.document
        request = {"kind": "run", "path": document.path, "text": document.normalized, "kernel": kernel, "instance": instance, "target": target,
                   "timeout": timeout, "against": against or "auto", "interpreter": snapshot.preferences.interpreter, "details": True}
        try:
            return {"kernel": kernel, "instance": instance, "target": target, "ok": False, **await self.backend.request(request, timeout, report)}
        except Exception as error:
            log.exception("the run failed")
            return {"kernel": kernel, "instance": instance, "target": target, "ok": False,
                    "error": f"the run worker could not answer ({type(error).__name__}: {error})"}

    async def end(self) -> None:
        """End the workers and wait until they are gone: their ends are told to a loop that is still there."""
        if self._given is not None and hasattr(self._given, "end"):
            await self._given.end()

    def close(self) -> None:
        if self._given is not None:
            self._given.close()


def _target_and_text(snapshot: Snapshot, kernel: str, instance: str, requested: str) -> tuple[str, Hashable]:
    definition = snapshot.kernel_named(kernel)
    if definition is None:
        return lowering_target(None, snapshot.preferences, requested), snapshot.document.key
    chosen = snapshot.instance(definition, instance)
    program = snapshot.program(definition, chosen) if chosen is not None else None
    return lowering_target(program, snapshot.preferences, requested), snapshot.text_key(definition)


def facts(snapshot: Snapshot, known: list[tuple[_Key, LoweredView]]) -> dict[str, dict[str, Any]]:
    """What lowering said of the document's kernels at the shown instances, by kernel; nothing is lowered for it."""
    shown = {k.qualname: (snapshot.text_key(k), getattr(snapshot.instance(k), "text", "")) for k in snapshot.kernels} if known else {}
    found: dict[str, dict[str, Any]] = {}
    for (text, kernel, instance, _, _), view in known:
        if shown.get(kernel) == (text, instance):
            found.setdefault(kernel, {}).update({k: v for k, v in view.facts.items() if v is not None})
    return found
