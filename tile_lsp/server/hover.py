"""textDocument/hover."""
from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING
from urllib.parse import quote

from lsprotocol import types

from ..ide.lowered import RESOURCES, LoweredView
from ..ide.snapshot import Snapshot
from .app import TileServer
from .guard import guarded
from .later import later
from .lowered_files import write_readonly

if TYPE_CHECKING:
    from ..ide import hover as ide
else:
    ide = later("hover")

PATIENCE = 8.0  # seconds a hover waits for the compiler; the first one starts it
STAGES = ("thread", "cuda")
LINKED = ("tile", "thread", "host", "device", "cuda", "ptx", "sass")
_COMPILING = 1.0  # seconds the hover of a kernel waits for its registers


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    @guarded()
    async def hover(params: types.HoverParams) -> types.Hover | None:
        view = server.view(params.text_document.uri)
        snapshot = view.snapshot
        line, column = view.place(params.position)
        found = await server.ask(ide.hover, snapshot, line, column)
        if found is None:
            return None
        lowered = ""
        if found.question is not None and snapshot.preferences.lowered_in_hover:
            lowered = await _lowered(server, snapshot, params.text_document.uri, found.question)
        return types.Hover(contents=types.MarkupContent(kind=types.MarkupKind.Markdown, value=found.markdown(lowered)),
                           range=view.places.range(found.span))


async def _lowered(server: TileServer, snapshot: Snapshot, uri: str, question: ide.LoweringQuestion) -> str:
    """What the compiler knows, or a word on why it is not there (yet)."""
    views: list[LoweredView] = []
    try:
        async with asyncio.timeout(PATIENCE) if hasattr(asyncio, "timeout") else _Timeout(PATIENCE):
            for stage in STAGES if not question.whole else ("cuda",) if server.virtual_documents else ("cuda", "tile", "thread"):
                views.append(await server.compiler.lower(snapshot, question.kernel, question.instance, "", stage))
                if views[-1].error:
                    break
            if question.whole and not views[0].error:
                views += await _compiled(server, snapshot, question)
    except (TimeoutError, asyncio.TimeoutError):
        return "the compiler is still at work: hover again for the CUDA code"
    if views and views[0].error:
        views = views[:1]
    return ide.lowered_markdown(question, views, _links(server, uri, question, views))


async def _compiled(server: TileServer, snapshot: Snapshot, question: ide.LoweringQuestion) -> list[LoweredView]:
    """Registers and spills: of a kernel compiled in time; without a toolkit, nothing."""
    task = asyncio.ensure_future(server.compiler.lower(snapshot, question.kernel, question.instance, "", RESOURCES))
    await asyncio.wait([task], timeout=_COMPILING)
    if not task.done() or task.result().error:
        return []
    server.client.refresh_hints()
    return [task.result()]


def _links(server: TileServer, uri: str, question: ide.LoweringQuestion, views: list[LoweredView]) -> dict[str, str]:
    """Addresses that open whole stages: commands for a client with virtual documents, files of what is lowered already for the others."""
    if not server.virtual_documents:
        return {v.stage: address for v in views if v.text and not v.error and (address := _file(v))} if question.whole else {}
    links = {}
    for view in views[:1]:
        for stage in LINKED:
            arguments = [{"uri": uri, "kernel": question.kernel, "instance": question.instance, "target": view.target, "stage": stage}]
            links[stage] = f"command:tile-lsp.showLowered?{quote(json.dumps(arguments))}"
    return links


def _file(view: LoweredView) -> str:
    try:
        return write_readonly(view).as_uri()
    except OSError:
        return ""  # the lens says so when it is clicked


class _Timeout:
    """asyncio.timeout for Python 3.10."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._expired = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._expire, task)

    def _expire(self, task: asyncio.Task) -> None:
        self._expired = True
        task.cancel()

    async def __aexit__(self, kind, value, trace) -> None:
        self._handle.cancel()
        if self._expired and kind is asyncio.CancelledError:
            raise TimeoutError
