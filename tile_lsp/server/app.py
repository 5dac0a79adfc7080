"""The server object: open documents, analysis threads, workers."""
from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from tilec.records import dataclass

from ..ide import preferences as preferences_module
from ..ide import workspace_files
from ..ide.cells import python_lines
from ..ide.document import Document
from ..ide.history import History
from ..ide.preferences import Preferences
from ..ide.snapshot import Cancelled, Snapshot
from .client import Client
from .compiler import Compiler
from .convert import to_diagnostic
from .later import load_all
from .places import Cell, Places
from .protocol import OrderedProtocol, converter
from .session import Session
from .tidy import Tidy

log = logging.getLogger("tile_lsp")
T = TypeVar("T")
_ANALYSIS_THREADS = 1  # Python 3.11's ast.parse raises SystemError when two threads parse at once (CPython issue 106905)
_FAREWELL = 5.0  # seconds for the workers to go
_NOTEBOOKS = types.NotebookDocumentSyncOptions(notebook_selector=[types.NotebookDocumentFilterWithCells(
    notebook=types.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"), cells=[types.NotebookCellLanguage(language="python")])])


@dataclass(frozen=True)
class View:
    """A document of the client as a request sees it: ``uri`` is what the client calls it, a file or a cell."""

    uri: str
    session: Session
    snapshot: Snapshot
    places: Places

    @property
    def document(self) -> Document:
        return self.snapshot.document

    def place(self, position: types.Position) -> tuple[int, int]:
        return self.places.place(self.uri, position)


class TileServer(LanguageServer):
    def __init__(self, version: str, compiler: Compiler | None = None):
        super().__init__(preferences_module.SECTION, version, protocol_cls=OrderedProtocol, converter_factory=converter, notebook_document_sync=_NOTEBOOKS)
        self.preferences = Preferences()
        self.folder_preferences: dict[str, Preferences] = {}  # folder's URI -> the client's settings there
        self.virtual_documents = False  # the client shows lowered code itself, from `tile-lsp:` addresses
        self.pulls = False  # the client asks for diagnostics; nothing is published
        self.startup_options: dict[str, Any] = {}
        self.opening: Any = None  # what was done before this server was loaded (``early.Opening``)
        self._serving: asyncio.AbstractEventLoop | None = None
        self.reading: Any = None  # standard input, where a read of it can be ended
        self.sessions: dict[str, Session] = {}
        self._running: dict[str, dict[str, Any]] = {}  # by address: the runs of a document, which go on when it is closed
        self._loading: asyncio.Task[None] | None = None  # of what the first diagnostics did not need
        self._complaints: set[str] = set()  # about configurations, told once
        self.client = Client(self)
        self.history = History()
        self._tidy = Tidy()
        self.compiler = compiler or Compiler()
        self._threads = ThreadPoolExecutor(_ANALYSIS_THREADS, thread_name_prefix="analysis")
        self.compiler.executor = self._threads

    # -- documents -----------------------------------------------------------------------------------------------------
    def document(self, uri: str) -> Document:
        """The client's text; for a document that is not open, the file's. An unreadable file is empty."""
        item = self.workspace.get_text_document(uri)
        path = uris.to_fs_path(uri) or item.path or uri
        text = item.source if uri in self.workspace.text_documents else workspace_files.text_of(Path(path))
        return Document(path, text, item.version or 0)

    def notebook_of(self, uri: str) -> types.NotebookDocument | None:
        """The open notebook that a cell belongs to, or that has this address itself."""
        return self.workspace.get_notebook_document(notebook_uri=uri) or self.workspace.get_notebook_document(cell_uri=uri)

    def joined(self, notebook: types.NotebookDocument) -> tuple[Document, list[Cell]]:
        """A notebook's Python cells as one text."""
        lines: list[str] = []
        cells = []
        for cell in notebook.cells:
            if cell.kind != types.NotebookCellKind.Code:
                continue
            item = self.workspace.get_text_document(cell.document)
            if item.language_id not in (None, "python"):
                continue
            own = Document("", item.source).lines
            cells.append(Cell(cell.document, len(lines) + 1, len(own), item.version or 0))
            lines += [*python_lines(own), ""]
        return Document(uris.to_fs_path(notebook.uri) or notebook.uri, "\n".join(lines), notebook.version), cells

    def session(self, uri: str) -> Session:
        notebook = self.notebook_of(uri)
        key = notebook.uri if notebook is not None else uri
        if key not in self.sessions:
            if notebook is not None:
                document, cells = self.joined(notebook)
                self.sessions[key] = Session(key, document, cells)
            else:
                self.sessions[key] = Session(key, self.document(uri), early=self._taken_over(uri))
            self.sessions[key].running = self._running.setdefault(key, {})
        return self.sessions[key]

    def _taken_over(self, uri: str) -> Snapshot | None:
        """The analysis of the first document, made before this server was loaded."""
        if self.opening is None or self.opening.uri != uri:
            return None
        taken, self.opening = self.opening.snapshot, None
        return taken

    def snapshot(self, uri: str) -> Snapshot:
        return self.snapshot_of(self.session(uri))

    def snapshot_of(self, session: Session) -> Snapshot:
        """The newest text under the user's settings and the project's configuration."""
        preferences, complaint = preferences_module.of_project(session.document.path, self.preferences_for(session.uri))
        if complaint and complaint not in self._complaints:
            self._complaints.add(complaint)
            self.say(complaint, types.MessageType.Warning)
        return session.snapshot(preferences)

    def view(self, uri: str) -> View:
        session = self.session(uri)
        return View(uri, session, self.snapshot_of(session), self.places(session))

    def places(self, session: Session) -> Places:
        return Places(session.uri, session.document, self.workspace.position_codec, session.cells, self.lines_of)

    def read(self, path: str) -> str | None:
        """A file's text as the editor has it."""
        opened = self.sessions.get(uris.from_fs_path(path) or "")
        if opened is not None:
            return opened.document.normalized
        return workspace_files.text_of(Path(path)) or None

    def lines_of(self, path: str) -> list[str]:
        return (self.read(path) or "").split("\n")

    def roots(self) -> list[Path]:
        """The folders of the workspace."""
        folders = [uris.to_fs_path(f.uri) for f in self.workspace.folders.values()] or [self.workspace.root_path]
        return [Path(f) for f in folders if f]

    async def ask(self, question: Callable[..., T], *args: Any) -> T:
        """Answer a question about a document in an analysis thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, question, *args)

    # -- diagnostics ---------------------------------------------------------------------------------------------------
    def changed(self, uri: str) -> None:
        session = self.session(uri)
        notebook = self.notebook_of(uri)
        if notebook is not None:
            document, session.cells = self.joined(notebook)
        else:
            document = self.document(uri)
        self.schedule(session, session.edit(document))
        self._tidy.edited()

    def schedule(self, session: Session, delay: float) -> None:
        """Publish diagnostics after a while; an edit before that postpones them."""
        self._serving = asyncio.get_running_loop()
        if self.pulls:
            return
        session.due = time.monotonic() + delay
        if session.publishing is None or session.publishing.done():
            session.publishing = asyncio.get_running_loop().create_task(self._publish(session))

    async def _publish(self, session: Session) -> None:
        """Analyse and publish until the newest text has had its turn."""
        try:
            while True:
                while (wait := session.due - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                generation = session.generation
                try:
                    await self._publish_now(session, generation)
                except Cancelled:
                    continue  # the text changed meanwhile
                if generation == session.generation:
                    return
        except asyncio.CancelledError:
            return
        except Exception:
            log.exception("diagnostics of %s failed", session.uri)

    async def _publish_now(self, session: Session, generation: int) -> None:
        snapshot, places = self.snapshot_of(session), self.places(session)
        begun = time.perf_counter()
        found = await self.ask(self.diagnostics_of, snapshot, places, session)
        session.last_duration = time.perf_counter() - begun
        if self.sessions.get(session.uri) is session and (generation == session.generation or session.is_starving()):
            versions = {c.uri: c.version for c in places.cells} or {session.uri: snapshot.document.version}
            for uri, diagnostics in found.items():
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=versions.get(uri) or None))
            session.last_published = time.monotonic()
            self.compiler.prepare_for(snapshot)
            if self._loading is None:
                self._loading = asyncio.get_running_loop().create_task(load_all())

    def diagnostics_of(self, snapshot: Snapshot, places: Places, session: Session | None = None) -> dict[str, list[types.Diagnostic]]:
        """The checker's diagnostics and those of failed runs, by the client's document."""
        found: dict[str, list[types.Diagnostic]] = {uri: [] for uri in ([c.uri for c in places.cells] or [places.uri])}
        from .failures import run_diagnostics

        for d in snapshot.diagnostics():
            made = to_diagnostic(places, d)
            line = d.span.line if d.span.path == places.document.path else 1
            found.setdefault(places.uri_of(line), []).append(made)
        if session is not None:
            for uri, made in run_diagnostics(snapshot, places, session):
                found.setdefault(uri, []).append(made)
        return found

    def closed(self, uri: str) -> None:
        session = self.sessions.pop(uri, None)
        if session is None:
            return
        session.generation += 1  # whatever is still being worked out for it is stale
        if not session.running:
            self._running.pop(session.uri, None)
        if session.publishing is not None:
            session.publishing.cancel()
        for shown in [c.uri for c in session.cells] or [uri]:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=shown, diagnostics=[]))

    # -- settings ------------------------------------------------------------------------------------------------------
    def preferences_for(self, uri: str) -> Preferences:
        """The settings of the innermost workspace folder that holds a document, else the general ones."""
        holding = [f for f in self.folder_preferences if uri == f or uri.startswith(f.rstrip("/") + "/")]
        return self.folder_preferences[max(holding, key=len)] if holding else self.preferences

    def take_settings(self, value: Any, folder: str = "") -> None:
        """Settings from initializationOptions, didChangeConfiguration or workspace/configuration, plain or under ``tile-lsp``."""
        chosen, complaints = preferences_module.taken(value, self.preferences)
        if folder:
            self.folder_preferences[folder] = chosen
        else:
            self.preferences = chosen
        for complaint in complaints:
            if complaint not in self._complaints:
                self._complaints.add(complaint)
                self.say(complaint, types.MessageType.Warning)

    def check_again(self, but: str = "") -> None:
        """Analyse every open document anew: settings, packages or other files have changed."""
        for session in self.sessions.values():
            if session.uri != but:
                session.forget_analysis()
                self.schedule(session, 0.0)
        self.client.refresh()

    # -- the client ----------------------------------------------------------------------------------------------------
    def say(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_show_message(types.ShowMessageParams(type=kind, message=message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A malformed message is logged; nothing pops up in the user's editor."""
        if not isinstance(error, JsonRpcException):  # else a request was refused, and the client has been told why
            log.error("%s: %s", getattr(source, "__name__", source), error)

    def farewell(self) -> None:
        """The client has left: end the workers while there is a loop that can be told of it. Called by the thread that reads."""
        loop = self._serving
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(Exception):
                asyncio.run_coroutine_threadsafe(self.compiler.end(), loop).result(_FAREWELL)

    def shutdown(self) -> None:
        self.compiler.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self.reading is not None:
            self.reading.stop()  # else its thread waits for the client, and we for the thread
        super().shutdown()
