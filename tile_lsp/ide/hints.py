"""Inlay hints: inferred shapes and types of buffers, an instance's values, what a kernel needs of the machine."""
from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from tilec.evaluate.definitions import value_text
from tilec.evaluate.values import is_unknown
from tilec.ir.buffer import BARRIER, CLUSTER_BARRIER, VAR, Buffer
from tilec.ir.expr import Const
from tilec.ir.printer import buffer_type, expr_text
from tilec.records import dataclass

from .snapshot import Snapshot

_MOST = 32  # characters of a value


@dataclass(frozen=True)
class Hint:
    """Shown behind a place (from 1). ``kind``: type or parameter."""

    line: int
    column: int
    text: str
    kind: str
    tooltip: str = ""


def hints(snapshot: Snapshot, first: int, last: int, facts: Mapping[str, Mapping[str, Any]] | None = None) -> list[Hint]:
    """Hints of a range of lines. ``facts``: what compiling the kernels said, by qualified name; nothing is compiled for hints."""
    found: list[Hint] = []
    for kernel in snapshot.kernels:
        if kernel.span.end_line < first or kernel.span.line > last:
            continue
        instance = snapshot.instance(kernel)
        if instance is None:
            continue
        found += _values(snapshot, kernel, instance)
        found += _buffers(snapshot, kernel, instance)
        found += _resources(snapshot, kernel, instance, (facts or {}).get(kernel.qualname, {}))
    return sorted((h for h in found if first <= h.line <= last), key=lambda h: (h.line, h.column))


def _values(snapshot: Snapshot, kernel: Any, instance: Any) -> Iterator[Hint]:
    """``M=1024`` behind the parameters of a kernel, where the value is not the default that stands there."""
    if kernel.kind == "prim_func":
        return
    values = snapshot.arguments(kernel, instance)
    args = kernel.node.args
    defaults = dict(zip([a.arg for a in (*args.posonlyargs, *args.args)][-len(args.defaults):] if args.defaults else [], args.defaults))
    defaults.update({a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None})
    for argument in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        value = values.get(argument.arg)
        if argument.arg not in values or is_unknown(value) or argument.arg == "self" or isinstance(value, Buffer):
            continue
        text = value_text(value)
        default = defaults.get(argument.arg)
        if len(text) > _MOST or (isinstance(default, ast.Constant) and default.value == value):
            continue
        span = snapshot.source.span(argument)
        yield Hint(span.line, span.column + len(argument.arg), f"={text}", "parameter", f"its value in {instance.text}")


def _buffers(snapshot: Snapshot, kernel: Any, instance: Any) -> Iterator[Hint]:
    """Shape and type behind a buffer's name where it is made."""
    for node, values in snapshot.trail(kernel, instance).values.items():
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
            continue
        buffer = next((v for v in values if isinstance(v, Buffer)), None)
        if buffer is None or buffer.scope in (BARRIER, CLUSTER_BARRIER, VAR):
            continue
        span = snapshot.source.span(node)
        if span.path != snapshot.source.path or not kernel.span.line <= span.line <= kernel.span.end_line:
            continue
        size = buffer.size_bytes()
        yield Hint(span.end_line, span.end_column, f": {buffer_type(buffer)}", "type", f"{buffer.scope}{f', {size:,} bytes' if size is not None else ''}")


def _resources(snapshot: Snapshot, kernel: Any, instance: Any, facts: Mapping[str, Any]) -> Iterator[Hint]:
    """Grid, threads, shared memory and registers at the end of the launch's first line."""
    program = snapshot.program(kernel, instance)
    launches = program.launches() if program is not None else []
    if len(launches) != 1 or launches[0].span is None:
        return
    assert program is not None
    span = launches[0].span.outermost()
    if span.path != snapshot.source.path or span.line > len(snapshot.source.lines):
        return
    words = []
    blocks = [expr_text(e) for e in launches[0].grid]
    if any(not isinstance(e, Const) for e in launches[0].grid) or len(blocks) > 1:
        words.append(" × ".join(blocks) + " blocks")
    shared = facts.get("shared_bytes")
    declared = [b.size_bytes() for b in program.buffers() if b.is_shared() and b.view_of is None]
    if isinstance(shared, int) and shared:
        words.append(f"{_bytes(shared)} shared")
    elif declared and all(s is not None for s in declared):
        words.append(f"{_bytes(sum(s for s in declared if s is not None))} shared a stage")
    if facts.get("registers"):
        words.append(f"{facts['registers']} registers" + (f", {facts['spills']} bytes spilled" if facts.get("spills") else ""))
    if not words:
        return
    line = head_line(snapshot, span.line)
    yield Hint(line, len(snapshot.source.lines[line - 1].rstrip()) + 1, " " + " · ".join(words), "type", instance.text)


def head_line(snapshot: Snapshot, line: int) -> int:
    """The line on which the head of the statement that begins at ``line`` ends."""
    lines = snapshot.source.lines
    for number in range(line, min(line + 20, len(lines)) + 1):
        if lines[number - 1].split("#")[0].rstrip().endswith(":"):
            return number
    return line


def _bytes(count: int) -> str:
    return f"{count / 1024:.4g} KB" if count >= 1024 else f"{count} B"
