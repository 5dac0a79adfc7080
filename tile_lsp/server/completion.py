"""textDocument/completion with resolve, and textDocument/signatureHelp."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from .app import TileServer, View
from .client import plain
from .guard import guarded
from .later import later
from .protocol import PlainJson

if TYPE_CHECKING:
    from ..ide import completion as ide
    from ..ide import signatures
else:
    ide, signatures = later("completion"), later("signatures")

_KINDS = {"function": types.CompletionItemKind.Function, "class": types.CompletionItemKind.Class, "constant": types.CompletionItemKind.Constant,
          "type": types.CompletionItemKind.TypeParameter, "module": types.CompletionItemKind.Module, "keyword": types.CompletionItemKind.Keyword,
          "value": types.CompletionItemKind.EnumMember, "variable": types.CompletionItemKind.Variable, "property": types.CompletionItemKind.Property,
          "rule": types.CompletionItemKind.Reference}


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", '"', "'", "[", ":"], resolve_provider=True))
    @guarded()
    async def completion(params: types.CompletionParams) -> PlainJson:
        view = server.view(params.text_document.uri)
        line, column = view.place(params.position)
        found = await server.ask(ide.complete, view.snapshot, line, column)
        start = view.places.position(line, column - found.typed)
        return _list(view, found, types.Range(start=start, end=view.places.position(line, column)), _can_default(server))

    @server.feature(types.COMPLETION_ITEM_RESOLVE)
    @guarded()
    async def resolve(item: types.CompletionItem) -> types.CompletionItem:
        data: Any = plain(item.data)
        if isinstance(data, dict) and isinstance(data.get("uri"), str):
            text = await server.ask(ide.documentation, server.snapshot(data["uri"]), {"name": item.label, **data})
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


def _can_default(server: TileServer) -> bool:
    """Whether what all items share need be said only once (protocol 3.17)."""
    completion = server.client_capabilities.text_document and server.client_capabilities.text_document.completion
    able = completion.completion_list.item_defaults if completion and completion.completion_list else None
    return {"editRange", "data"} <= set(able or ())


def _list(view: View, found: ide.Completion, place: types.Range, can_default: bool) -> PlainJson:
    """A ``CompletionList``."""
    replaced = {end: {"line": at.line, "character": at.character} for end, at in (("start", place.start), ("end", place.end))}
    modules = {i.resolve.get("module", "") for i in found.items}
    shared = {"uri": view.uri, "module": next(iter(modules))} if can_default and len(modules) == 1 and "" not in modules else None
    items = []
    for i in found.items:
        item: dict[str, Any] = {"label": i.label, "kind": _KINDS[i.kind].value}
        if i.detail:
            item["detail"] = i.detail
        if i.sort:
            item["sortText"] = i.sort
        if i.documentation:
            item["documentation"] = {"kind": "markdown", "value": i.documentation}
        if not can_default:
            item["textEdit"] = {"range": replaced, "newText": i.insert or i.label}
        elif i.insert:
            item["textEditText"] = i.insert
        if i.resolve and shared is None:
            item["data"] = {"uri": view.uri, **i.resolve}
        items.append(item)
    defaults = {"editRange": replaced, **({"data": shared} if shared else {})} if can_default else None
    return PlainJson({"isIncomplete": False, "items": items, **({"itemDefaults": defaults} if defaults else {})})
