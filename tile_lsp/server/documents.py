"""Opening, changing, saving, closing of files and notebooks; the beginning of a session; settings, folders, watched files."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lsprotocol import types
from pygls import uris

from ..ide import environment, preferences
from . import pull
from .app import TileServer
from .guard import guarded
from .text import use_protocol_lines

_CONFIGURATION = ("pyproject.toml", "tile-lsp.toml")


def register(server: TileServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        use_protocol_lines(server.workspace)
        options = params.initialization_options
        if isinstance(options, dict):
            server.startup_options = options
            server.virtual_documents = bool(options.get("virtualDocuments"))
        if pull.wanted(server, server.startup_options):
            server.pulls = True
            pull.register(server)

    @server.feature(types.INITIALIZED)
    @guarded()
    async def initialized(params: types.InitializedParams) -> None:
        server.take_settings(server.startup_options)
        server.check_again()
        if await server.client.settings():
            server.check_again()
        await server.client.watch_files()

    @server.feature(types.SHUTDOWN)
    @guarded()
    async def shutdown(params: None) -> None:
        await server.compiler.end()

    _documents(server)
    _surroundings(server)


def _documents(server: TileServer) -> None:
    """Files and notebooks live alike; a cell that opens is part of a notebook that has opened."""

    def on(features: tuple[str, str], happened: Callable[[str], None]) -> None:
        @guarded()
        async def notified(params: Any) -> None:
            happened((params.text_document if hasattr(params, "text_document") else params.notebook_document).uri)

        for feature in features:
            server.feature(feature)(notified)

    def opened(uri: str) -> None:
        notebook = server.notebook_of(uri)
        if notebook is None or notebook.uri == uri:
            server.sessions.pop(uri, None)
            server.schedule(server.session(uri), 0.0)

    def saved(uri: str) -> None:
        """Other open files may use the saved one; packages may have changed too."""
        forget()
        server.check_again(but=uri)

    on((types.TEXT_DOCUMENT_DID_OPEN, types.NOTEBOOK_DOCUMENT_DID_OPEN), opened)
    on((types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE), server.changed)
    on((types.TEXT_DOCUMENT_DID_SAVE, types.NOTEBOOK_DOCUMENT_DID_SAVE), saved)
    on((types.TEXT_DOCUMENT_DID_CLOSE, types.NOTEBOOK_DOCUMENT_DID_CLOSE), server.closed)


def _surroundings(server: TileServer) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    @guarded()
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        server.folder_preferences.clear()
        server.take_settings(params.settings)
        await server.client.settings()
        server.check_again()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    @guarded()
    async def did_change_workspace_folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.removed:
            server.folder_preferences.pop(folder.uri, None)
        await server.client.settings()
        server.check_again()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    @guarded()
    async def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        """What the editor itself writes comes here as well: an open document's text is the editor's, not the file's."""
        if concerns(server, params.changes):
            forget()
            server.check_again()


def concerns(server: TileServer, changes: Sequence[types.FileEvent]) -> bool:
    """Whether a change on disk may change what is known of an open document."""
    for change in changes:
        path = uris.to_fs_path(change.uri) or ""
        if not path.endswith(".py") or path.endswith(_CONFIGURATION) or change.uri not in server.sessions:
            return True
    return False


def forget() -> None:
    """Read configurations and packages again."""
    environment.forget()
    preferences.forget_projects()
