"""Statements as CUDA text, each line with the place it came from."""
from __future__ import annotations

from typing import Any

from ...analysis.bounds import Ranges
from ...ir.buffer import GLOBAL, VAR, Buffer
from ...ir.build import const, const_int
from ...ir.expr import Call
from ...ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Let, Store, While
from ...source.span import Span
from ...transform.errors import LoweringError
from .expressions import ExpressionPrinter
from .vectors import is_vector_loop, print_vector


class StatementPrinter:
    def __init__(self, ranges: Ranges):
        self.ranges = ranges
        self.expr = ExpressionPrinter(ranges)
        self.lines: list[tuple[str, Span | None]] = []
        self.depth = 1
        self.read_only: set[Buffer] = set()  # tensors that the kernel does not write

    def line(self, text: str, span: Span | None = None) -> None:
        self.lines.append(("  " * self.depth + text, span))

    def body(self, statements: Body) -> None:
        for s in statements:
            handler = _HANDLERS.get(type(s))
            if handler is None:
                raise LoweringError(f"internal: {type(s).__name__} is left after lowering", s.span)
            handler(self, s)

    def block(self, head: str, statements: Body, span: Span | None, tail: str = "}") -> None:
        self.line(head + " {", span)
        self.depth += 1
        self.body(statements)
        self.depth -= 1
        self.line(tail, span)


def _alloc(out: StatementPrinter, s: Alloc) -> None:
    buffer = s.buffer
    element = out.expr.type(buffer.dtype, s.span)
    if "address" in buffer.attrs:
        out.line(f"{element}* const {out.expr.name(buffer)} = reinterpret_cast<{element}*>({out.expr.name(buffer.attrs['address'])});", s.span)
        return
    if buffer.scope == GLOBAL and buffer.view_of is not None:  # a tensor's memory in another type
        constant = "const " if buffer.storage() in out.read_only else ""
        first = out.expr.text(buffer.offset) if buffer.offset is not None else ""
        place = f"{out.expr.name(buffer.storage())}{f' + {first}' if first else ''}"
        out.line(f"{constant}{element}* const {out.expr.name(buffer)} = reinterpret_cast<{constant}{element}*>({place});", s.span)
        return
    if buffer.attrs.get("byte_offset") is not None:
        return  # declared at the top, in the pool
    if buffer.scope == VAR:
        out.line(f"{element} {out.expr.name(buffer)} = {out.expr.text(const(0, buffer.dtype))};", s.span)  # as TileLang's start
        return
    size = _elements(buffer, s.span)
    prefix = "__shared__ alignas(128) " if buffer.scope == "shared" else "alignas(16) "
    out.line(f"{prefix}{element} {out.expr.name(buffer)}[{size}];", s.span)


def _elements(buffer: Buffer, span: Span | None) -> int:
    extents = buffer.static_shape()
    if extents is None:
        raise LoweringError(f"{buffer.name} has an extent that is not a constant", span, "alloc-symbolic")
    total = 1
    for extent in extents:
        total *= extent
    return max(total, 1)


def _let(out: StatementPrinter, s: Let) -> None:
    out.ranges.set_value(s.var, s.value)
    if out.expr.is_unpredictable(s.value):
        out.expr.unpredictable.add(s.var)
    value = out.expr.text(s.value)
    out.line(f"const {out.expr.type(s.var.dtype, s.span)} {out.expr.name(s.var)} = {value};", s.span)


def _store(out: StatementPrinter, s: Store) -> None:
    out.expr.type(s.buffer.dtype, s.span)
    out.line(f"{out.expr.assignment(s.buffer, s.indices, out.expr.text(s.value))};", s.span)


def _for(out: StatementPrinter, s: For) -> None:
    out.ranges.set_extent(s.var, s.extent, s.start, s.step)
    if const_int(s.extent) is None or out.expr.is_unpredictable(s.start):
        out.expr.unpredictable.add(s.var)
    if is_vector_loop(s):
        print_vector(out, s)
        return
    name, kind = out.expr.name(s.var), out.expr.type(s.var.dtype)
    if s.kind in ("unroll", "vectorized"):
        factor = s.attrs.get("unroll_factor")
        out.line(f"#pragma unroll {factor}" if isinstance(factor, int) else "#pragma unroll", s.span)
    elif s.attrs.get("no_unroll"):
        out.line("#pragma unroll 1", s.span)
    start = out.expr.text(s.start)
    stop = out.expr.text(s.start + s.extent * s.step if const_int(s.start) != 0 or s.step != 1 else s.extent, 8)
    compare = "<" if s.step > 0 else ">"
    advance = f"++{name}" if s.step == 1 else f"{name} += {s.step}"
    out.block(f"for ({kind} {name} = {start}; {name} {compare} {stop}; {advance})", s.body, s.span)


def _while(out: StatementPrinter, s: While) -> None:
    out.block(f"while ({out.expr.text(s.cond)})", s.body, s.span)


def _if(out: StatementPrinter, s: If) -> None:
    cond = out.expr.text(s.cond)
    with out.ranges.under(s.cond):
        out.block(f"if ({cond})", s.then, s.span, "} else {" if s.other else "}")
    if not s.other:
        return
    out.depth += 1
    out.body(s.other)
    out.depth -= 1
    out.line("}", s.span)


def _jump(out: StatementPrinter, s: Jump) -> None:
    out.line(f"{s.kind};", s.span)


_SYNC = {"sync_threads": "__syncthreads()", "sync_warp": "__syncwarp()"}


def _evaluate(out: StatementPrinter, s: Evaluate) -> None:
    if isinstance(s.value, Call) and s.value.op in _SYNC:
        out.line(_SYNC[s.value.op] + ";", s.span)
        return
    out.line(out.expr.text(s.value) + ";", s.span)


_HANDLERS: dict[type, Any] = {
    Alloc: _alloc, Let: _let, Store: _store, For: _for, While: _while, If: _if, Jump: _jump, Evaluate: _evaluate,
}
