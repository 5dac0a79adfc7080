"""What ``lower --explain`` says of copies that were to be cp.async, by what became of them."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.expr import Call
from ..ir.program import TileProgram
from ..ir.stmt import Evaluate, walk
from .context import Decision, PassContext

_PROMISE = "cp.async by all threads"
_PLAIN = "loads and stores by all threads"
_WHY = "cp.async moves 4, 8 or 16 neighbouring bytes that are read or left out together"


def as_emitted(program: TileProgram, ctx: PassContext) -> list[Decision]:
    """The decisions, corrected where a copy that runs ahead of its loop could not become cp.async: loops are pipelined before copies are given to threads."""
    if not ctx.ahead:
        return list(ctx.decisions)
    emitted = {_key(s.span) for s in walk(program.body) if isinstance(s, Evaluate) and isinstance(s.value, Call) and (s.value.attrs or {}).get("bytes")}
    plain = {_key(span): (name, span) for copies in ctx.ahead.values() for name, span in copies if _key(span) not in emitted}
    loops = {_key(loop) for loop, copies in ctx.ahead.items() if all(_key(span) in plain for _, span in copies)}
    found, told = [], set()
    for d in ctx.decisions:
        if d.mechanism.startswith(_PROMISE) and _key(d.span) in loops | set(plain):
            told.add(_key(d.span))
            reason = d.reason or ("none of its copies became cp.async" if _key(d.span) in loops else _WHY)
            d = replace(d, mechanism=_PLAIN + d.mechanism.removeprefix(_PROMISE), reason=reason)
        found.append(d)
    found += [Decision(span, f"copy to {name}", _PLAIN, _WHY) for key, (name, span) in plain.items() if key not in told]
    return found


def _key(span: Any) -> Any:
    return None if span is None else (span.path, span.line, span.column)
