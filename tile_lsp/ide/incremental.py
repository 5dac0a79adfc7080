"""Diagnostics of kernels that an edit cannot have touched are taken over from the last text, moved to their new lines.

A kernel depends on the top-level statements it reaches by names: its own, those that bind or may change a name it reads,
and so on. If the texts of all of these and the kernel's instances are the same as before, so are its diagnostics.
"""
from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tilec.check.diagnostic import Diagnostic
from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.span import Span

_MOST = 512  # kernels remembered
_NUMBERED = re.compile(r"\bline \d")  # a message that names a line is not moved


@dataclass(frozen=True)
class Statement:
    """A top-level statement: the names it reads, those it binds, and those whose values it may change by a call or a store."""

    first: int
    last: int
    text: str
    reads: frozenset[str]
    binds: frozenset[str]
    mutates: frozenset[str]
    is_import: bool


@dataclass(frozen=True)
class _Entry:
    starts: tuple[int, ...]  # first lines of the statements the kernel depends on
    ends: tuple[int, ...]
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticCache:
    """Belongs to one document and one set of preferences. ``source``: the text analysed last."""

    def __init__(self) -> None:
        self.source: SourceFile | None = None
        self._entries: dict[tuple[Any, ...], _Entry] = {}
        self._statements: dict[str, Statement] = {}
        self._traces: OrderedDict[tuple[Any, ...], tuple[ast.AST, Any]] = OrderedDict()

    def dependencies(self, source: SourceFile, kernels: Iterable[Any]) -> dict[str, tuple[tuple[Any, ...], list[Statement]]]:
        """For each kernel: the key of everything its diagnostics depend on, and those statements."""
        statements = [self._statement(source, node) for node in source.tree.body]
        self._statements = {s.text: s for s in statements}
        changed_by = _changed_by(statements)
        broken = [span.line for _, span in source.syntax_errors]
        found = {}
        for kernel in kernels:
            start = next((i for i, s in enumerate(statements) if s.first <= kernel.name_span.line <= s.last), None)
            if start is None:
                continue
            needed = _closure(start, statements, changed_by)
            used = [statements[i] for i in sorted(needed)]
            if any(s.first <= line <= s.last for s in used for line in broken):
                continue  # what the parser made of it may depend on the rest of the file
            key = (kernel.qualname, tuple((i.origin, i.text) for i in kernel.instances), tuple(s.text for s in used))
            found[kernel.qualname] = (key, used)
        return found

    def trace(self, kind: str, kernel: Any, instance: str, depends: tuple[tuple[Any, ...], list[Statement]] | None, make: Callable[[], Any]) -> Any:
        """What tracing a kernel gave (its program, its names' values), taken over from an earlier text where neither the
        statements it depends on nor their places have changed: both hold syntax nodes and lines."""
        if depends is None:
            return make()
        key = (kind, instance, depends[0], tuple(s.first for s in depends[1]))
        known = self._traces.get(key)
        if known is not None and known[0] is kernel.node:
            self._traces.move_to_end(key)
            return known[1]
        made = make()
        self._traces[key] = (kernel.node, made)
        while len(self._traces) > _MOST:
            self._traces.popitem(last=False)
        return made

    def _statement(self, source: SourceFile, node: ast.stmt) -> Statement:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        # Comments above belong to the statement: they may be directives.
        begin = first
        while begin > 1 and source.lines[begin - 2].lstrip().startswith("#"):
            begin -= 1
        text = "\n".join(source.lines[begin - 1:last])
        known = self._statements.get(text)
        if known is not None:
            return replace(known, first=begin, last=last)
        return Statement(begin, last, text, *names_of(node), isinstance(node, (ast.Import, ast.ImportFrom)))

    def take(self, key: tuple[Any, ...], used: list[Statement]) -> list[Diagnostic] | None:
        """The remembered diagnostics at the lines where the statements stand now."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        shifts = [s.first - start for s, start in zip(used, entry.starts)]
        return [_move(d, entry, shifts) for d in entry.diagnostics]

    def keep(self, key: tuple[Any, ...], used: list[Statement], path: str, diagnostics: list[Diagnostic]) -> None:
        """Remember diagnostics, unless they point outside the statements or name lines."""
        entry = _Entry(tuple(s.first for s in used), tuple(s.last for s in used), tuple(diagnostics))
        for d in diagnostics:
            texts = [d.message, *(r.message for r in d.related)]
            if any(_NUMBERED.search(t) for t in texts) or any(_index(s, entry) is None for s in _spans(d) if s.path == path):
                return
        if len(self._entries) >= _MOST:
            self._entries.pop(next(iter(self._entries)))
        self._entries[key] = entry


def names_of(node: ast.stmt) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names a top-level statement reads, binds, and whose values it may change.

    A definition changes nothing but binds its name. Any other statement with a call or a store into something may change
    whatever it reads.
    """
    reads: set[str] = set()
    binds: set[str] = set()
    acts = False
    for inner in _walk(node):
        if isinstance(inner, ast.Name):
            (reads if isinstance(inner.ctx, ast.Load) else binds).add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            binds.add(inner.name)
        elif isinstance(inner, ast.alias):
            binds.add((inner.asname or inner.name).split(".")[0])
        elif isinstance(inner, (ast.Call, ast.Attribute, ast.Subscript)):
            acts = acts or isinstance(inner, ast.Call) or not isinstance(inner.ctx, ast.Load)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        # Names bound inside are local, or global by declaration: read means that changes of them count.
        return frozenset(reads | binds - {node.name}), frozenset({node.name}), frozenset()
    return frozenset(reads), frozenset(binds), frozenset(reads if acts else ())


def _walk(node: ast.AST) -> list[ast.AST]:
    """A node and everything below it, in any order: ``ast.walk`` takes three times as long, and this goes through whole files."""
    found = [node]
    for inner in found:  # which grows
        for value in inner.__dict__.values():
            if isinstance(value, ast.AST):
                if value.__class__ is not ast.Load:
                    found.append(value)
            elif value.__class__ is list:
                found += [v for v in value if isinstance(v, ast.AST)]
    return found


def _changed_by(statements: list[Statement]) -> dict[str, list[int]]:
    """The statements that bind a name or may change its value. A call of a module's function does not change the module."""
    modules = {name for s in statements if s.is_import for name in s.binds}
    found: dict[str, list[int]] = {}
    for index, statement in enumerate(statements):
        for name in statement.binds | (statement.mutates - modules):
            found.setdefault(name, []).append(index)
    return found


def _closure(start: int, statements: list[Statement], changed_by: dict[str, list[int]]) -> set[int]:
    """The statements reached by names; an import of everything (``*``) is always among them."""
    needed = {start, *changed_by.get("*", ())}
    stack = list(needed)
    seen: set[str] = set()
    while stack:
        for name in statements[stack.pop()].reads - seen:
            seen.add(name)
            for index in changed_by.get(name, ()):
                if index not in needed:
                    needed.add(index)
                    stack.append(index)
    return needed


def _spans(d: Diagnostic) -> list[Span]:
    spans = [d.span, *(r.span for r in d.related), *(e.span for e in (d.fix.edits if d.fix else ()))]
    for span in list(spans):
        while span.caller is not None:
            span = span.caller
            spans.append(span)
    return spans


def _index(span: Span, entry: _Entry) -> int | None:
    return next((i for i, (a, b) in enumerate(zip(entry.starts, entry.ends)) if a <= span.line and span.end_line <= b), None)


def _move(d: Diagnostic, entry: _Entry, shifts: list[int]) -> Diagnostic:
    def moved(span: Span) -> Span:
        index = _index(span, entry)
        shift = shifts[index] if index is not None and span.path == d.span.path else 0
        return replace(span, line=span.line + shift, end_line=span.end_line + shift, caller=moved(span.caller) if span.caller is not None else None)

    if not any(shifts):
        return d
    fix = d.fix and replace(d.fix, edits=tuple(replace(e, span=moved(e.span)) for e in d.fix.edits))
    return replace(d, span=moved(d.span), related=tuple(replace(r, span=moved(r.span)) for r in d.related), fix=fix)
