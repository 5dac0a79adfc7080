"""textDocument/completion with resolve, and textDocument/signatureHelp."""
from __future__ import annotations

from typing import Any

from lsprotocol import types

from ..ide import completion as ide
from ..ide import signatures
from .app import TileServer, View
from .client import plain
from .guard import guarded

_KINDS = {"function": types.CompletionItemKind.Function, "class": types.CompletionItemKind.Class, "constant": types.CompletionItemKind.Constant,
          "type": types.CompletionItemKind.TypeParameter, "module": types.CompletionItemKind.Module, "keyword": types.CompletionItemKind.Keyword,
          "value": types.CompletionItemKind.EnumMember, "variable": types.CompletionItemKind.Variable, "property": types.CompletionItemKind.Property,
          "rule": types.CompletionItemKind.Reference}


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", '"', "'", "[", ":"], resolve_provider=True))
    @guarded()
    async def completion(params: types.CompletionParams) -> types.CompletionList | None:
        view = server.view(params.text_document.uri)
        line, column = view.place(params.position)
        found = await server.ask(ide.complete, view.snapshot, line, column)
        start = view.places.position(line, column - found.typed)
        place = types.Range(start=start, end=view.places.position(line, column))
        return types.CompletionList(is_incomplete=False, items=[_item(view, i, place) for i in found.items])

    @server.feature(types.COMPLETION_ITEM_RESOLVE)
    @guarded()
    async def resolve(item: types.CompletionItem) -> types.CompletionItem:
        data: Any = plain(item.data)
        if isinstance(data, dict) and isinstance(data.get("uri"), str) and data.get("name"):
            text = await server.ask(ide.documentation, server.snapshot(data["uri"]), data)
            item.documentation = types.MarkupContent(kind=types.MarkupKind.Markdown, value=text) if text else None
        return item

    @server.feature(types.TEXT_DOCUMENT_SIGNATURE_HELP, types.SignatureHelpOptions(trigger_characters=["(", ","], retrigger_characters=["=", ")"]))
    @guarded()
    async def signature_help(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        view = server.view(params.text_document.uri)
        line, column = view.place(params.position)
        found = await server.ask(signatures.signature, view.snapshot, line, column)
        if found is None:
            return None
        units = server.workspace.position_codec.client_num_units
        parameters = [types.ParameterInformation(label=(units(found.label[:a]), units(found.label[:b]))) for a, b in found.parameters]
        doc = types.MarkupContent(kind=types.MarkupKind.Markdown, value=found.documentation) if found.documentation else None
        active = found.active if found.active is not None else len(parameters)  # behind the last: none is
        return types.SignatureHelp(signatures=[types.SignatureInformation(label=found.label, parameters=parameters, documentation=doc, active_parameter=active)],
                                   active_signature=0, active_parameter=active)


def _item(view: View, item: ide.Item, place: types.Range) -> types.CompletionItem:
    return types.CompletionItem(
        label=item.label, kind=_KINDS.get(item.kind), detail=item.detail or None, sort_text=item.sort or None, filter_text=item.label,
        documentation=types.MarkupContent(kind=types.MarkupKind.Markdown, value=item.documentation) if item.documentation else None,
        text_edit=types.TextEdit(range=place, new_text=item.insert or item.label),
        data={"uri": view.uri, **item.resolve} if item.resolve else None)
