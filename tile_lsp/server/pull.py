"""Diagnostics for clients that ask for them instead of being told."""
from __future__ import annotations

from typing import Any

from lsprotocol import types
from pygls import uris

from ..ide import workspace_files
from ..ide.digest import digest
from ..ide.document import Document
from .app import TileServer
from .guard import guarded
from .session import Session

_IDENTIFIER = "tile-lsp"
_MOST_FILES = 500  # of a workspace report


def wanted(server: TileServer, options: dict[str, Any]) -> bool:
    """Pulling is for clients that say so, or that cannot be told: what is published reaches every client sooner."""
    mode = options.get("diagnosticMode")
    text = server.client_capabilities.text_document
    if text is None or text.diagnostic is None:
        return False
    return mode == "pull" or (mode != "push" and text.publish_diagnostics is None)


def register(server: TileServer) -> None:
    options = types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=True, identifier=_IDENTIFIER)

    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, options)
    @guarded(empty=types.RelatedFullDocumentDiagnosticReport(items=[]), again=True)
    async def document_diagnostic(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        view = server.view(params.text_document.uri)
        found = await server.ask(server.diagnostics_of, view.snapshot, view.places, view.session)
        server.compiler.prepare_for(view.snapshot)
        items = found.get(view.uri, [])
        made = result_id(items)
        if params.previous_result_id == made:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=made)
        return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=made)

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    @guarded(empty=types.WorkspaceDiagnosticReport(items=[]))
    async def workspace_diagnostic(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """Files that are not open; the client asks for the others by themselves."""
        known = {p.uri: p.value for p in params.previous_result_ids}
        found: list[types.WorkspaceDocumentDiagnosticReport] = []
        for path in (await server.ask(lambda: list(workspace_files.mentioning(server.roots(), "tilelang"))))[:_MOST_FILES]:
            uri = uris.from_fs_path(str(path)) or ""
            if uri in server.sessions:
                continue
            session = Session(uri, Document(str(path), workspace_files.text_of(path)))
            by_uri = await server.ask(server.diagnostics_of, server.snapshot_of(session), server.places(session))  # one file at a time: others wait too
            items = by_uri.get(uri, [])
            made = result_id(items)
            if known.get(uri) == made:
                found.append(types.WorkspaceUnchangedDocumentDiagnosticReport(uri=uri, result_id=made))
            else:
                found.append(types.WorkspaceFullDocumentDiagnosticReport(uri=uri, items=items, result_id=made))
        return types.WorkspaceDiagnosticReport(items=found)


def result_id(items: list[types.Diagnostic]) -> str:
    """The same diagnostics have the same id."""
    return digest(repr(items))[:16]
