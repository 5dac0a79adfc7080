"""Semantic tokens: which names are TileLang's, which are buffers and in which memory, which are loop variables."""
from __future__ import annotations

import ast
from typing import Any

from tilec.evaluate.values import DType
from tilec.ir.buffer import BARRIER, CLUSTER_BARRIER, FRAGMENT, GLOBAL, LOCAL, SHARED, SHARED_DYN, TMEM, VAR, Buffer
from tilec.ir.expr import Var
from tilec.records import dataclass

from .snapshot import Snapshot

TYPES = ("namespace", "type", "parameter", "variable", "function", "macro")
MODIFIERS = ("definition", "readonly", "defaultLibrary", "shared", "fragment", "global", "local", "tensorMemory", "barrier")
_SCOPES = {SHARED: "shared", SHARED_DYN: "shared", FRAGMENT: "fragment", GLOBAL: "global", LOCAL: "local", VAR: "local", TMEM: "tensorMemory",
           BARRIER: "barrier", CLUSTER_BARRIER: "barrier"}
_API_TYPES = {"dtype": "type", "class": "type", "module": "namespace", "macro-decorator": "macro"}


@dataclass(frozen=True)
class Token:
    line: int  # from 1, columns too
    column: int
    length: int
    type: str
    modifiers: tuple[str, ...] = ()


def tokens(snapshot: Snapshot, first: int = 1, last: int | None = None) -> list[Token]:
    """Tokens of the lines ``first`` to ``last``, in order. Names that Python's own highlighting tells as much about are left out."""
    last = last or 1 << 30
    found: dict[tuple[int, int], Token] = {}
    for use in snapshot.analysis.api_uses:
        span = use.name_span
        if first <= span.line <= last and span.line == span.end_line:
            kind = _API_TYPES.get(snapshot.environment.api.kind(use.name, use.module) or "", "function")
            found[span.line, span.column] = Token(span.line, span.column, span.end_column - span.column, kind, ("defaultLibrary",))
    for kernel in snapshot.kernels:
        if kernel.span.end_line < first or kernel.span.line > last:
            continue
        name = kernel.name_span
        if first <= name.line <= last:
            found.setdefault((name.line, name.column), Token(name.line, name.column, len(kernel.name), "function", ("definition",)))
        for token in _of_kernel(snapshot, kernel):
            if first <= token.line <= last:
                found.setdefault((token.line, token.column), token)
    return [found[key] for key in sorted(found)]


def _of_kernel(snapshot: Snapshot, kernel: Any) -> list[Token]:
    instance = snapshot.instance(kernel)
    if instance is None:
        return []
    found = []
    for node, values in snapshot.trail(kernel, instance).values.items():
        if not isinstance(node, (ast.Name, ast.arg)):
            continue
        name = node.id if isinstance(node, ast.Name) else node.arg
        kind = next((k for k in map(_kind, values) if k is not None), None)
        span = snapshot.source.span(node)
        if kind is None or span.path != snapshot.source.path or not kernel.span.line <= span.line <= kernel.span.end_line:
            continue
        if not snapshot.source.lines[span.line - 1].startswith(name, span.column - 1):
            continue  # a macro of another file, or a torn line
        modifiers = kind[1]
        if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store):
            modifiers = ("definition", *modifiers)
        found.append(Token(span.line, span.column, len(name), "parameter" if isinstance(node, ast.arg) else kind[0], modifiers))
    return found


def _kind(value: Any) -> tuple[str, tuple[str, ...]] | None:
    if isinstance(value, Buffer):
        scope = _SCOPES.get(value.scope)
        return "variable", (scope,) if scope else ()
    if isinstance(value, Var):
        return "variable", ("readonly",)
    if isinstance(value, DType):
        return "type", ()
    return None


def encode(found: list[Token], units: Any) -> list[int]:
    """The protocol's five integers a token. ``units(line, begin, end)``: a column before and a length, in the client's code units."""
    data: list[int] = []
    line = start = 0
    for token in found:
        column, length = units(token.line, token.column, token.column + token.length)
        same = token.line - 1 == line
        data += [token.line - 1 - line, column - (start if same else 0), length, TYPES.index(token.type),
                 sum(1 << MODIFIERS.index(m) for m in token.modifiers)]
        line, start = token.line - 1, column
    return data
