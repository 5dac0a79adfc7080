"""A language client for tests: what an editor does, in a few words."""
from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client

SERVER = [sys.executable, "-m", "tile_lsp.cli.main", "serve"]
FAKE_SERVER = [sys.executable, str(Path(__file__).with_name("fake_compiler_server.py"))]


def config(command: list[str]) -> ClientServerConfig:
    return ClientServerConfig(server_command=command, client_factory=_make_client)


def _make_client() -> LanguageClient:
    client = make_test_lsp_client()
    client.lens_refreshes = 0
    client.registered = []

    @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(*_):
        client.lens_refreshes += 1

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams):
        client.registered += params.registrations

    client.chosen = []

    @client.feature("tile-lsp/chosen")
    def chosen(params):
        client.chosen.append(params.kernel)

    for quiet in (types.WORKSPACE_SEMANTIC_TOKENS_REFRESH, types.WORKSPACE_INLAY_HINT_REFRESH, "tile-lsp/ran"):
        client.feature(quiet)(lambda *_: None)
    return client


async def begin(client: LanguageClient, root: Path, encodings=None, pull=False, **options) -> types.InitializeResult:
    capabilities = client_capabilities("visual-studio-code")
    if encodings is not None:
        capabilities.general = types.GeneralClientCapabilities(position_encodings=encodings)
    if pull:
        capabilities.text_document.diagnostic = types.DiagnosticClientCapabilities()
    return await client.initialize_session(types.InitializeParams(
        capabilities=capabilities, root_uri=root.as_uri(), workspace_folders=[types.WorkspaceFolder(uri=root.as_uri(), name="root")],
        initialization_options={"runTarget": "cpu", "tilelangVersion": "0.1.15", "prepareRuns": False, **options}))


class Editor:
    """One document in a client."""

    def __init__(self, client: LanguageClient, path: Path, text: str):
        self.client, self.uri, self.text, self.version = client, path.as_uri(), text, 1
        client.text_document_did_open(types.DidOpenTextDocumentParams(
            text_document=types.TextDocumentItem(uri=self.uri, language_id="python", version=1, text=text)))

    @property
    def id(self) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(uri=self.uri)

    def position(self, needle: str, offset: int = 0) -> types.Position:
        """In UTF-16 units."""
        before = self.text[:self.text.index(needle) + offset]
        line = before.rsplit("\n", 1)[-1]
        return types.Position(line=before.count("\n"), character=len(line.encode("utf-16-le")) // 2)

    def replace(self, old: str, new: str) -> None:
        """One incremental edit of the first occurrence."""
        span = types.Range(start=self.position(old), end=self.position(old, len(old)))
        self.text = self.text.replace(old, new, 1)
        self.version += 1
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(
            text_document=types.VersionedTextDocumentIdentifier(uri=self.uri, version=self.version),
            content_changes=[types.TextDocumentContentChangePartial(range=span, text=new)]))

    async def diagnostics(self, wanted=lambda found: True, timeout: float = 60.0) -> list[types.Diagnostic]:
        """The diagnostics of the newest text, once they fit."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            found = self.client.diagnostics.get(self.uri)
            if found is not None and wanted(found):
                return list(found)
            await asyncio.sleep(0.01)
        raise AssertionError(f"no such diagnostics: {self.client.diagnostics.get(self.uri)}")

    async def hover(self, needle: str, offset: int = 0) -> str:
        found = await self.client.text_document_hover_async(types.HoverParams(text_document=self.id, position=self.position(needle, offset)))
        return "" if found is None else found.contents.value

    async def lenses(self) -> list[types.CodeLens]:
        return list(await self.client.text_document_code_lens_async(types.CodeLensParams(text_document=self.id)) or [])

    async def click(self, title: str):
        """Execute the command of a lens."""
        command = next(lens.command for lens in await self.lenses() if lens.command.title == title)
        return await self.client.workspace_execute_command_async(types.ExecuteCommandParams(command=command.command, arguments=list(command.arguments)))

    async def actions(self, needle: str) -> list[types.CodeAction]:
        place = types.Range(start=self.position(needle), end=self.position(needle))
        found = list(await self.client.text_document_code_action_async(types.CodeActionParams(
            text_document=self.id, range=place, context=types.CodeActionContext(diagnostics=[]))) or [])
        return [a if a.command else await self.client.code_action_resolve_async(a) for a in found]
