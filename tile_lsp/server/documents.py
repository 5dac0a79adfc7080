"""Opening, changing, saving, closing; settings; the beginning and the end of a session."""
from __future__ import annotations

from typing import Any

from lsprotocol import types

from ..ide import environment, preferences
from .app import TileServer
from .guard import guarded
from .text import use_protocol_lines


def register(server: TileServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        use_protocol_lines(server.workspace)
        options = params.initialization_options
        if isinstance(options, dict):
            server.startup_options = options
            server.virtual_documents = bool(options.get("virtualDocuments"))

    @server.feature(types.INITIALIZED)
    @guarded()
    async def initialized(params: types.InitializedParams) -> None:
        server.take_settings(server.startup_options)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    @guarded()
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.sessions.pop(uri, None)
        server.schedule(server.session(uri), 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    @guarded()
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    @guarded()
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        """Other open files may use the saved one; packages may have changed too."""
        environment.forget()
        preferences.forget_projects()
        for session in server.sessions.values():
            if session.uri != params.text_document.uri:
                session.forget_analysis()
                server.schedule(session, 0.0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    @guarded()
    async def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    @guarded()
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        settings: Any = params.settings
        server.take_settings(settings)
