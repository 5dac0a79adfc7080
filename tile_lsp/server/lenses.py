"""textDocument/codeLens and codeAction, both with resolve."""
from __future__ import annotations

from typing import Any

from lsprotocol import types

from ..ide import fixes, lenses
from .app import TileServer, View
from .client import plain
from .convert import to_diagnostic, to_edits
from .guard import guarded

_ALL = types.CodeActionKind(fixes.ALL) if fixes.ALL in types.CodeActionKind._value2member_map_ else fixes.ALL


def register(server: TileServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=True))
    @guarded(empty=[], again=True)
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        view = server.view(params.text_document.uri)
        found = await _lenses(server, view)
        return [_lens(view, lens) for lens in found if view.places.shows(view.uri, lens.span)]

    @server.feature(types.CODE_LENS_RESOLVE)
    @guarded()
    async def resolve_lens(lens: types.CodeLens) -> types.CodeLens:
        """The lens as it is now: a run may have begun or ended since it was sent."""
        data: Any = plain(lens.data)
        if isinstance(data, dict) and isinstance(data.get("uri"), str):
            view = server.view(data["uri"])
            found = [x for x in await _lenses(server, view) if x.arguments.get("kernel", data.get("kernel")) == data.get("kernel")]
            same = next((x for x in found if x.command == data.get("command")), None)
            lens.command = _lens(view, same).command if same is not None else lens.command or types.Command(title="", command="")
        return lens

    options = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, types.CodeActionKind.SourceFixAll, types.CodeActionKind.Empty],
                                      resolve_provider=True)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    @guarded(empty=[])
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        view = server.view(params.text_document.uri)
        first, last = view.place(params.range.start)[0], view.place(params.range.end)[0]
        lazily = _resolves_edits(server)
        actions = [_action(view, a, first, last, lazily) for a in await server.ask(fixes.actions, view.snapshot, first, last)]
        only = params.context.only
        return [a for a in actions if not only or any(_is_kind(a, k) for k in only)]

    @server.feature(types.CODE_ACTION_RESOLVE)
    @guarded()
    async def resolve_action(action: types.CodeAction) -> types.CodeAction:
        data: Any = plain(action.data)
        if isinstance(data, dict) and isinstance(data.get("uri"), str):
            view = server.view(data["uri"])
            if view.document.key == data.get("text"):
                found = await server.ask(fixes.actions, view.snapshot, int(data["first"]), int(data["last"]))
                same = next((a for a in found if a.title == action.title and a.edits), None)
                action.edit = types.WorkspaceEdit(changes=to_edits(view.places, same.edits)) if same is not None else None
        return action


async def _lenses(server: TileServer, view: View) -> list[lenses.Lens]:
    return await server.ask(lenses.lenses, view.snapshot, dict(view.session.results), set(view.session.running))


def _lens(view: View, lens: lenses.Lens) -> types.CodeLens:
    arguments = [{"uri": view.uri, **lens.arguments}] if lens.command else None
    return types.CodeLens(
        range=view.places.range(lens.span), data={"uri": view.uri, "kernel": lens.arguments.get("kernel"), "command": lens.command},
        command=types.Command(title=lens.title, command=lens.command, tooltip=lens.tooltip or None, arguments=arguments))


def _resolves_edits(server: TileServer) -> bool:
    """Whether the client asks for the edit when it is wanted."""
    text = server.client_capabilities.text_document
    support = text.code_action.resolve_support if text is not None and text.code_action is not None else None
    return support is not None and "edit" in support.properties and bool(text and text.code_action and text.code_action.data_support)


def _action(view: View, action: fixes.Action, first: int, last: int, lazily: bool) -> types.CodeAction:
    if action.command:
        return types.CodeAction(title=action.title, kind=types.CodeActionKind.Empty, command=types.Command(
            title=action.title, command=action.command, arguments=[{"uri": view.uri, **(action.arguments or {})}]))
    return types.CodeAction(
        title=action.title, kind=types.CodeActionKind.QuickFix if action.kind == fixes.QUICK else _ALL,
        diagnostics=[to_diagnostic(view.places, action.diagnostic)] if action.diagnostic is not None else None, is_preferred=action.preferred or None,
        data={"uri": view.uri, "text": view.document.key, "first": first, "last": last},
        edit=None if lazily else types.WorkspaceEdit(changes=to_edits(view.places, action.edits)))


def _is_kind(action: types.CodeAction, kind: str) -> bool:
    mine = str(getattr(action.kind, "value", action.kind) or "")
    wanted = str(getattr(kind, "value", kind))
    return not wanted or mine == wanted or mine.startswith(f"{wanted}.")
