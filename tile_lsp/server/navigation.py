"""Definition, references, highlights, rename; symbols of the document and of the workspace."""
from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcException
from tilec.source.span import Span

from .app import TileServer, View
from .guard import guarded
from .later import later

if TYPE_CHECKING:
    from ..ide import navigation as ide
    from ..ide import symbols, workspace_symbols
else:
    ide, symbols, workspace_symbols = later("navigation"), later("symbols"), later("workspace_symbols")

_INVALID_REQUEST = -32803  # RequestFailed: clients show the message


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    @guarded()
    async def definition(params: types.DefinitionParams) -> list[types.Location] | None:
        view = server.view(params.text_document.uri)
        found = await server.ask(ide.definitions, view.snapshot, *view.place(params.position), server.read)
        return [view.places.location(s) for s in found]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    @guarded()
    async def references(params: types.ReferenceParams) -> list[types.Location] | None:
        view = server.view(params.text_document.uri)
        found = await server.ask(ide.references, view.snapshot, *view.place(params.position), server.roots(), server.read, params.context.include_declaration)
        return [view.places.location(s) for s in found]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    @guarded()
    async def document_highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        view = server.view(params.text_document.uri)
        found = await server.ask(ide.highlights, view.snapshot, *view.place(params.position))
        kinds = {True: types.DocumentHighlightKind.Write, False: types.DocumentHighlightKind.Read}
        return [types.DocumentHighlight(range=view.places.range(s), kind=kinds[bound]) for s, bound in found if view.places.shows(view.uri, s)]

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    @guarded()
    async def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        view = server.view(params.text_document.uri)
        try:
            return view.places.range(await server.ask(ide.renameable, view.snapshot, *view.place(params.position)))
        except ide.Refused as refused:
            raise JsonRpcException(str(refused), code=_INVALID_REQUEST) from refused

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    @guarded()
    async def rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        view = server.view(params.text_document.uri)
        try:
            places = await server.ask(ide.rename, view.snapshot, *view.place(params.position), params.new_name, server.roots(), server.read)
        except ide.Refused as refused:
            raise JsonRpcException(str(refused), code=_INVALID_REQUEST) from refused
        return _edit(server, view, places, params.new_name)

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @guarded(empty=[], again=True)
    async def document_symbol(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        view = server.view(params.text_document.uri)
        found = await server.ask(symbols.symbols, view.snapshot)
        return [_symbol(view, s) for s in found if view.places.shows(view.uri, s.span)]

    @server.feature(types.WORKSPACE_SYMBOL)
    @guarded(empty=[])
    async def workspace_symbol(params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        texts = {s.document.path: s.document.normalized for s in server.sessions.values() if not s.cells}
        found = await server.ask(workspace_symbols.search, params.query, server.roots(), texts)
        return [_found(server, f) for f in found]


def _edit(server: TileServer, view: View, places: list[Span], text: str) -> types.WorkspaceEdit:
    by_uri: dict[str, list[types.TextEdit]] = {}
    for span in places:
        location = view.places.location(span)
        by_uri.setdefault(location.uri, []).append(types.TextEdit(range=location.range, new_text=text))
    workspace = server.client_capabilities.workspace
    if workspace is None or workspace.workspace_edit is None or not workspace.workspace_edit.document_changes:
        return types.WorkspaceEdit(changes=by_uri)
    changes = []
    for uri, edits in by_uri.items():
        version = server.workspace.get_text_document(uri).version if uri in server.workspace.text_documents else None
        changes.append(types.TextDocumentEdit(text_document=types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version), edits=edits))
    return types.WorkspaceEdit(document_changes=changes)


def _symbol(view: View, symbol: symbols.Symbol) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        name=symbol.name, detail=symbol.detail, kind=types.SymbolKind.Function if symbol.kind == "kernel" else types.SymbolKind.Variable,
        range=view.places.range(symbol.span), selection_range=view.places.range(symbol.name_span), children=[_symbol(view, c) for c in symbol.children])


def _found(server: TileServer, found: workspace_symbols.Found) -> types.WorkspaceSymbol:
    from .convert import to_position

    lines = server.lines_of(found.span.path)
    codec = server.workspace.position_codec
    place = types.Range(start=to_position(lines, found.span.line, found.span.column, codec), end=to_position(lines, found.span.end_line, found.span.end_column, codec))
    return types.WorkspaceSymbol(name=found.name, kind=types.SymbolKind.Function, container_name=found.container or None,
                                 location=types.Location(uri=uris.from_fs_path(found.span.path) or "", range=place))
