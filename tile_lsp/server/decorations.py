"""What is drawn into the text without being asked for: semantic tokens, inlay hints, folding ranges."""
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from lsprotocol import types

from ..ide import tokens
from .app import TileServer, View
from .compiler import facts
from .guard import guarded
from .later import later

if TYPE_CHECKING:
    from ..ide import folding, hints
else:
    folding, hints = later("folding"), later("hints")

_LEGEND = types.SemanticTokensLegend(token_types=list(tokens.TYPES), token_modifiers=list(tokens.MODIFIERS))
_KINDS = {"comment": types.FoldingRangeKind.Comment, "imports": types.FoldingRangeKind.Imports, "region": types.FoldingRangeKind.Region}


def register(server: TileServer) -> None:
    numbers = itertools.count(1)

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _LEGEND)
    @guarded(again=True)
    async def semantic_tokens(params: types.SemanticTokensParams) -> types.SemanticTokens:
        view = server.view(params.text_document.uri)
        data = await _encoded(server, view, *view.places.lines(view.uri))
        view.session.tokens = (str(next(numbers)), data)
        return types.SemanticTokens(data=data, result_id=view.session.tokens[0])

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA)
    @guarded(again=True)
    async def semantic_tokens_delta(params: types.SemanticTokensDeltaParams) -> types.SemanticTokens | types.SemanticTokensDelta:
        view = server.view(params.text_document.uri)
        known, before = view.session.tokens
        data = await _encoded(server, view, *view.places.lines(view.uri))
        view.session.tokens = (str(next(numbers)), data)
        if not known or known != params.previous_result_id:
            return types.SemanticTokens(data=data, result_id=view.session.tokens[0])
        return types.SemanticTokensDelta(edits=_difference(before, data), result_id=view.session.tokens[0])

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE)
    @guarded(again=True)
    async def semantic_tokens_range(params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
        view = server.view(params.text_document.uri)
        return types.SemanticTokens(data=await _encoded(server, view, view.place(params.range.start)[0], view.place(params.range.end)[0]))

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    @guarded(empty=[], again=True)
    async def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        view = server.view(params.text_document.uri)
        first, last = view.place(params.range.start)[0], view.place(params.range.end)[0]
        known = server.compiler.known()
        found = await server.ask(lambda: hints.hints(view.snapshot, first, last, facts(view.snapshot, known)))
        return [_hint(view, h) for h in found]

    @server.feature(types.TEXT_DOCUMENT_FOLDING_RANGE)
    @guarded(empty=[], again=True)
    async def folding_range(params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        view = server.view(params.text_document.uri)
        first, last = view.places.lines(view.uri)
        found = await server.ask(folding.folds, view.snapshot)
        return [types.FoldingRange(start_line=f.first - first, end_line=f.last - first, kind=_KINDS.get(f.kind)) for f in found if first <= f.first and f.last <= last]


async def _encoded(server: TileServer, view: View, first: int, last: int) -> list[int]:
    found = await server.ask(tokens.tokens, view.snapshot, first, last)
    origin = view.places.lines(view.uri)[0] - 1
    lines, units = view.document.lines, server.workspace.position_codec.client_num_units

    def measured(line: int, begin: int, end: int) -> tuple[int, int]:
        text = lines[line - 1 + origin]
        return units(text[:begin - 1]), units(text[begin - 1:end - 1])

    moved = [tokens.Token(t.line - origin, t.column, t.length, t.type, t.modifiers) for t in found]
    return tokens.encode(moved, measured)


def _difference(before: list[int], after: list[int]) -> list[types.SemanticTokensEdit]:
    """One edit: from the first difference to the last."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start == len(before) == len(after):
        return []
    return [types.SemanticTokensEdit(start=start, delete_count=len(before) - start - end, data=after[start:len(after) - end])]


def _hint(view: View, hint: hints.Hint) -> types.InlayHint:
    kind = types.InlayHintKind.Type if hint.kind == "type" else types.InlayHintKind.Parameter
    return types.InlayHint(position=view.places.position(hint.line, hint.column), label=hint.text, kind=kind, tooltip=hint.tooltip or None)
