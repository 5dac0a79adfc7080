"""textDocument/codeLens, codeAction and documentSymbol."""
from __future__ import annotations

from lsprotocol import types

from ..ide import fixes, lenses, symbols
from ..ide.document import Document
from .app import TileServer
from .convert import to_diagnostic, to_edits, to_place, to_range
from .guard import guarded


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    @guarded(empty=[])
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        session = server.session(uri)
        snapshot = server.snapshot(uri)
        found = await server.ask(lenses.lenses, snapshot, dict(session.results), set(session.running))
        return [_lens(server, snapshot.document, uri, lens) for lens in found]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION,
                    types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.Empty]))
    @guarded(empty=[])
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        snapshot = server.snapshot(uri)
        codec = server.workspace.position_codec
        first, _ = to_place(snapshot.document, params.range.start, codec)
        last, _ = to_place(snapshot.document, params.range.end, codec)
        found = await server.ask(fixes.actions, snapshot, first, last)
        actions = [_action(server, snapshot.document, uri, a) for a in found]
        only = params.context.only
        return [a for a in actions if not only or any(_is_kind(a, k) for k in only)]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @guarded(empty=[])
    async def document_symbol(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        snapshot = server.snapshot(params.text_document.uri)
        found = await server.ask(symbols.symbols, snapshot)
        return [_symbol(server, snapshot.document, s) for s in found]


def _lens(server: TileServer, document: Document, uri: str, lens: lenses.Lens) -> types.CodeLens:
    arguments = [{"uri": uri, **lens.arguments}] if lens.command else None
    return types.CodeLens(
        range=to_range(document, lens.span, server.workspace.position_codec),
        command=types.Command(title=lens.title, command=lens.command, tooltip=lens.tooltip or None, arguments=arguments))


def _action(server: TileServer, document: Document, uri: str, action: fixes.Action) -> types.CodeAction:
    if action.command:
        return types.CodeAction(title=action.title, kind=types.CodeActionKind.Empty, command=types.Command(
            title=action.title, command=action.command, arguments=[{"uri": uri, **(action.arguments or {})}]))
    codec = server.workspace.position_codec
    diagnostics = [to_diagnostic(document, uri, action.diagnostic, codec)] if action.diagnostic is not None else None
    return types.CodeAction(title=action.title, kind=types.CodeActionKind.QuickFix, diagnostics=diagnostics, is_preferred=action.preferred,
                            edit=types.WorkspaceEdit(changes={uri: to_edits(document, action.edits, codec)}))


def _is_kind(action: types.CodeAction, kind: str) -> bool:
    mine = str(getattr(action.kind, "value", action.kind) or "")
    wanted = str(getattr(kind, "value", kind))
    return not wanted or mine == wanted or mine.startswith(f"{wanted}.")


def _symbol(server: TileServer, document: Document, symbol: symbols.Symbol) -> types.DocumentSymbol:
    codec = server.workspace.position_codec
    return types.DocumentSymbol(
        name=symbol.name, detail=symbol.detail, kind=types.SymbolKind.Function if symbol.kind == "kernel" else types.SymbolKind.Variable,
        range=to_range(document, symbol.span, codec), selection_range=to_range(document, symbol.name_span, codec),
        children=[_symbol(server, document, c) for c in symbol.children])
