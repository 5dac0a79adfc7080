"""Signature help: the parameters of the call at the cursor, and which one is being given."""
from __future__ import annotations

from tilec.records import dataclass

from . import call_context
from .api_docs import api_markdown
from .api_names import api_of
from .completion import parameters_of
from .snapshot import Snapshot

_STARS = {"var_positional": "*", "var_keyword": "**"}


@dataclass(frozen=True)
class Signature:
    """``label`` contains each parameter's text at its ``parameters`` place; ``active`` counts from 0, None behind the last."""

    label: str
    parameters: list[tuple[int, int]]
    active: int | None
    documentation: str = ""


def signature(snapshot: Snapshot, line: int, column: int) -> Signature | None:
    """The innermost call at a place (from 1) whose function is known."""
    call = call_context.at(call_context.text_before(snapshot.document.lines, line, column))
    if call is None:
        return None
    name, parameters = parameters_of(snapshot, call.callee)
    if not parameters:
        return None
    shown = [p for p in parameters if p[0] not in ("span",)]
    label = f"{call.callee}("
    places: list[tuple[int, int]] = []
    starred = False
    for index, (parameter, kind, default, annotation) in enumerate(shown):
        if kind == "keyword_only" and not starred and not any(p[1] == "var_positional" for p in shown):
            label += "*, "
            starred = True
        text = _STARS.get(kind, "") + parameter + (f": {annotation}" if annotation else "")
        text += (f" = {default}" if annotation else f"={default}") if default else ""
        places.append((len(label), len(label) + len(text)))
        label += text + (", " if index + 1 < len(shown) else "")
    label += ")"
    return Signature(label, places, _active(shown, call), _documentation(snapshot, call.callee))


def _active(parameters: list[tuple[str, str, str, str]], call: call_context.CallContext) -> int | None:
    if call.keyword:
        named = next((i for i, p in enumerate(parameters) if p[0] == call.keyword), None)
        return named if named is not None else next((i for i, p in enumerate(parameters) if p[1] == "var_keyword"), None)
    positional = [i for i, p in enumerate(parameters) if p[1] in ("positional_only", "positional_or_keyword")]
    if call.argument < len(positional):
        return positional[call.argument]
    return next((i for i, p in enumerate(parameters) if p[1] == "var_positional"), None)


def _documentation(snapshot: Snapshot, callee: str) -> str:
    api = api_of(snapshot, callee)
    if api is None:
        return ""
    found = api_markdown(api[1], api[0], snapshot.environment)
    if found is None:
        return ""
    head, versions = found
    doc = head.split("```")[-1].strip()
    return "\n\n".join(t for t in (doc, versions) if t)
