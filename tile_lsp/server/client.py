"""What the server asks of the client: to ask again, to watch files, for its settings."""
from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from .app import TileServer

log = logging.getLogger("tile_lsp")
_WATCHED = ("**/*.py", "**/pyproject.toml", "**/tile-lsp.toml", "**/requirements*.txt", "**/tilelang-*.dist-info/METADATA")


class Client:
    """Only asks what the client said it can do."""

    def __init__(self, server: TileServer):
        self._server = server

    @property
    def _workspace(self) -> types.WorkspaceClientCapabilities:
        return self._server.client_capabilities.workspace or types.WorkspaceClientCapabilities()

    def can(self, feature: str, ability: str) -> bool:
        """Whether ``workspace.<feature>.<ability>`` is among the client's capabilities."""
        return bool(getattr(getattr(self._workspace, feature, None), ability, False))

    def refresh_lenses(self) -> None:
        if self.can("code_lens", "refresh_support"):
            self._server.workspace_code_lens_refresh(None)

    def refresh(self) -> None:
        """Have the client ask again for everything that is shown without being asked for."""
        self.refresh_lenses()
        if self.can("inlay_hint", "refresh_support"):
            self._server.workspace_inlay_hint_refresh(None)
        if self.can("semantic_tokens", "refresh_support"):
            self._server.workspace_semantic_tokens_refresh(None)
        if self._server.pulls and self.can("diagnostics", "refresh_support"):
            self._server.workspace_diagnostic_refresh(None)

    def refresh_hints(self) -> None:
        if self.can("inlay_hint", "refresh_support"):
            self._server.workspace_inlay_hint_refresh(None)

    async def watch_files(self) -> None:
        """Be told of changes made outside of the editor."""
        if not self.can("did_change_watched_files", "dynamic_registration"):
            return
        watchers = [types.FileSystemWatcher(glob_pattern=pattern) for pattern in _WATCHED]
        try:
            await self._server.client_register_capability_async(types.RegistrationParams(registrations=[types.Registration(
                id="tile-lsp-files", method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                register_options=types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers))]))
        except Exception as error:
            log.warning("the client does not watch files: %s", error)

    async def settings(self) -> bool:
        """Ask for the settings, of every folder of the workspace. Whether there were any."""
        if not self._workspace.configuration:
            return False
        folders = list(self._server.workspace.folders)
        items = [types.ConfigurationItem(section="tile-lsp"), *(types.ConfigurationItem(section="tile-lsp", scope_uri=f) for f in folders)]
        try:
            found = await self._server.workspace_configuration_async(types.ConfigurationParams(items=items))
        except Exception as error:
            log.warning("the client does not tell its settings: %s", error)
            return False
        values = [plain(v) for v in found or ()]
        if not any(isinstance(v, dict) for v in values):
            return False
        if isinstance(values[0], dict):
            self._server.take_settings(values[0])
        self._server.folder_preferences.clear()
        for folder, value in zip(folders, values[1:]):
            if isinstance(value, dict):
                self._server.take_settings(value, folder)
        return True


def plain(value: Any) -> Any:
    """JSON objects arrive as named tuples or attribute bags where the protocol leaves their type open."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
