"""The outline of a document: kernels with their buffers."""
from __future__ import annotations

from dataclasses import field

from tilec.ir.printer import buffer_type
from tilec.records import dataclass
from tilec.source.span import Span

from .snapshot import Snapshot


@dataclass
class Symbol:
    name: str
    detail: str
    kind: str  # "kernel" or "buffer"
    span: Span
    name_span: Span
    children: list[Symbol] = field(default_factory=list)


def symbols(snapshot: Snapshot) -> list[Symbol]:
    found = []
    for kernel in snapshot.kernels:
        instance = snapshot.instance(kernel)
        entry = Symbol(kernel.name, instance.text if instance is not None else "", "kernel", kernel.span, kernel.name_span)
        program = snapshot.program(kernel, instance) if instance is not None else None
        for buffer in program.buffers() if program is not None else ():
            span = buffer.span.outermost() if buffer.span is not None else None
            if span is not None and span.path == snapshot.source.path and kernel.span.line <= span.line <= kernel.span.end_line:
                entry.children.append(Symbol(buffer.name, f"{buffer_type(buffer)} @ {buffer.scope}", "buffer", span, span))
        found.append(entry)
    return found
