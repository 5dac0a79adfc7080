"""The server object: open documents, analysis threads, workers."""
from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from ..ide import preferences as preferences_module
from ..ide.document import Document
from ..ide.preferences import Preferences
from ..ide.snapshot import Cancelled, Snapshot
from .compiler import Compiler
from .convert import to_diagnostic
from .session import Session

log = logging.getLogger("tile_lsp")
T = TypeVar("T")
NAME = "tile-lsp"
_ANALYSIS_THREADS = 1  # Python 3.11's ast.parse raises SystemError when two threads parse at once (CPython issue 106905)


class TileServer(LanguageServer):
    def __init__(self, version: str, compiler: Compiler | None = None):
        super().__init__(NAME, version)
        self.preferences = Preferences()
        self.virtual_documents = False  # the client shows lowered code itself, from `tile-lsp:` addresses
        self.startup_options: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self._complaints: set[str] = set()  # about configurations, told once
        self.compiler = compiler or Compiler()
        self._threads = ThreadPoolExecutor(_ANALYSIS_THREADS, thread_name_prefix="analysis")
        self.compiler.executor = self._threads

    # -- documents -----------------------------------------------------------------------------------------------------
    def document(self, uri: str) -> Document:
        """The client's text; for a document that is not open, the file's. An unreadable file is empty."""
        item = self.workspace.get_text_document(uri)
        path = uris.to_fs_path(uri) or item.path or uri
        try:
            text = item.source
        except (OSError, UnicodeDecodeError):
            text = ""
        return Document(path, text, item.version or 0)

    def session(self, uri: str) -> Session:
        if uri not in self.sessions:
            self.sessions[uri] = Session(uri, self.document(uri))
        return self.sessions[uri]

    def snapshot(self, uri: str) -> Snapshot:
        return self.snapshot_of(self.session(uri))

    def snapshot_of(self, session: Session) -> Snapshot:
        """The newest text under the user's settings and the project's configuration."""
        preferences, complaint = preferences_module.of_project(session.document.path, self.preferences)
        if complaint and complaint not in self._complaints:
            self._complaints.add(complaint)
            self.say(complaint, types.MessageType.Warning)
        return session.snapshot(preferences)

    async def ask(self, question: Callable[..., T], *args: Any) -> T:
        """Answer a question about a document in an analysis thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, question, *args)

    # -- diagnostics ---------------------------------------------------------------------------------------------------
    def changed(self, uri: str) -> None:
        session = self.session(uri)
        self.schedule(session, session.edit(self.document(uri)))

    def schedule(self, session: Session, delay: float) -> None:
        """Publish diagnostics after a while; an edit before that postpones them."""
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
        snapshot = self.snapshot_of(session)
        begun = time.perf_counter()
        found = await self.ask(self._protocol_diagnostics, snapshot, session.uri)
        session.last_duration = time.perf_counter() - begun
        if self.sessions.get(session.uri) is session and (generation == session.generation or session.is_starving()):
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(
                uri=session.uri, diagnostics=found, version=snapshot.document.version or None))
            session.last_published = time.monotonic()
            self.compiler.prepare_for(snapshot)

    def _protocol_diagnostics(self, snapshot: Snapshot, uri: str) -> list[types.Diagnostic]:
        codec = self.workspace.position_codec
        return [to_diagnostic(snapshot.document, uri, d, codec) for d in snapshot.diagnostics()]

    def closed(self, uri: str) -> None:
        session = self.sessions.pop(uri, None)
        if session is None:
            return
        session.generation += 1  # whatever still runs for it is stale
        if session.publishing is not None:
            session.publishing.cancel()
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    # -- settings ------------------------------------------------------------------------------------------------------
    def take_settings(self, value: Any) -> None:
        """Settings from initializationOptions or didChangeConfiguration, plain or under ``tile-lsp``."""
        if isinstance(value, dict) and isinstance(value.get(NAME), dict):
            value = value[NAME]
        self.preferences, complaints = preferences_module.read(value, self.preferences)
        for complaint in complaints:
            self.say(complaint, types.MessageType.Warning)
        for session in self.sessions.values():
            session.forget_analysis()
            self.schedule(session, 0.0)

    # -- the client ----------------------------------------------------------------------------------------------------
    def say(self, message: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_show_message(types.ShowMessageParams(type=kind, message=message))

    def refresh_lenses(self) -> None:
        """Have the client ask for lenses again, if it can be told to."""
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.code_lens is not None and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A malformed message is logged; nothing pops up in the user's editor."""
        log.error("%s: %s", getattr(source, "__name__", source), error)

    def shutdown(self) -> None:
        self.compiler.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        super().shutdown()
