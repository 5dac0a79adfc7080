"""Hovers: what stands at a place, in Markdown, and which lowered code belongs to it."""
from __future__ import annotations

import ast
from typing import Any

from tilec.ir.buffer import Buffer
from tilec.ir.printer import expr_text, program_lines
from tilec.ir.program import TileProgram
from tilec.records import dataclass
from tilec.source.span import Span

from . import syntax
from .api_docs import api_markdown
from .lowered import LoweredView, dedent
from .mechanism import mechanisms
from .snapshot import Snapshot
from .thread_roles import roles_markdown
from .values import Trail, describe

MOST_LINES = 24  # of CUDA or IR in a hover; the lowered document has them all


@dataclass(frozen=True)
class LoweringQuestion:
    """Which lowered code completes a hover: that of some source lines, or a kernel as a whole. ``buffer``: whose layout is asked for."""

    kernel: str
    instance: str
    first_line: int
    last_line: int
    whole: bool = False
    buffer: str = ""


@dataclass(frozen=True)
class Hover:
    """What the compiler adds stands between ``head`` and ``tail``: the window is small, and the CUDA is what users look for."""

    head: str
    span: Span
    question: LoweringQuestion | None = None
    tail: str = ""

    def markdown(self, lowered: str = "") -> str:
        return "\n\n---\n\n".join(t for t in (self.head, lowered, self.tail) if t)


def hover(snapshot: Snapshot, line: int, column: int) -> Hover | None:
    """The hover at a place (from 1); None where there is nothing to say."""
    kernel = snapshot.kernel_at(line)
    if kernel is not None and (syntax.holds(kernel.name_span, line, column) or _on_prim_func(snapshot, kernel, line, column)):
        return _kernel(snapshot, kernel)
    head, tail = "", []
    span: Span | None = None
    use = next((u for u in snapshot.analysis.api_uses if syntax.holds(u.name_span, line, column)), None)
    if use is not None:
        found = api_markdown(use.name, use.module, snapshot.environment)
        if found is not None:
            head, versions = found
            tail.append(versions)
            span = use.span
    node = syntax.name_at(snapshot.source, line, column)
    called = _kernel_called(snapshot, node) if kernel is None and not head else None
    if called is not None and node is not None:
        whole = _kernel(snapshot, called)
        return Hover(whole.head, syntax.span_of(snapshot.source, node), whole.question, whole.tail)
    if not head and node is not None and kernel is not None:
        head = _value(snapshot, kernel, node) or ""
        span = syntax.span_of(snapshot.source, node)
    question = None
    if kernel is not None and node is not None:
        question = _statement(snapshot, kernel, line, _buffer_at(snapshot, kernel, node))
    fault = _error_in(snapshot, kernel) if question is not None else None
    if fault is not None:  # it is not lowered, and the fault's own hover says why
        question = None
        if not fault.span.line <= line <= fault.span.end_line:
            tail.insert(0, f"not lowered: {fault.code} in line {fault.span.outermost().line}")
    if question is not None:
        tail.insert(0, _tile_lines(snapshot, kernel, question))
    if span is None or not (head or question):
        return None
    return Hover(head, span, question, "\n\n".join(t for t in tail if t))


def _kernel_called(snapshot: Snapshot, node: ast.AST | None) -> Any:
    """The kernel of the file that a name outside of kernels stands for."""
    name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""
    return next((k for k in snapshot.kernels if k.qualname == name), None)


def _error_in(snapshot: Snapshot, kernel: Any) -> Any:
    """The first error of the checker in a kernel."""
    return next((d for d in snapshot.diagnostics() if d.severity == "error" and d.span.path == snapshot.source.path
                 and kernel.first_line <= d.span.line <= kernel.span.end_line), None)


def _on_prim_func(snapshot: Snapshot, kernel: Any, line: int, column: int) -> bool:
    """The place is the name of the prim_func inside a factory."""
    return any(isinstance(n, ast.FunctionDef) and n.decorator_list and syntax.holds(snapshot.source.name_span(n), line, column)
               for n in syntax.nodes_on_line(kernel.node, line))


def _value(snapshot: Snapshot, kernel: Any, node: ast.AST) -> str | None:
    """The value a name had when the kernel was traced at the shown instance."""
    instance = snapshot.instance(kernel)
    if instance is None:
        return None
    values = snapshot.trail(kernel, instance).values.get(node, [])
    if not values and isinstance(node, ast.arg):
        values = [v for name, v in snapshot.arguments(kernel, instance).items() if name == node.arg and node in ast.walk(kernel.node.args)]
    name = getattr(node, "id", None) or getattr(node, "arg", None) or getattr(node, "attr", "")
    text = describe(str(name), values)
    return f"{text}\n\nfor `{instance.text}`" if text and instance.text else text


def _buffer_at(snapshot: Snapshot, kernel: Any, node: ast.AST) -> str:
    """The name of the buffer that a name stands for, "" if it is none."""
    instance = snapshot.instance(kernel)
    values = snapshot.trail(kernel, instance).values.get(node, []) if instance is not None else []
    return next((v.storage().name for v in values if isinstance(v, Buffer)), "")


def _statement(snapshot: Snapshot, kernel: Any, line: int, buffer: str = "") -> LoweringQuestion | None:
    """The question about the statement at a line, if the tile program has anything from there."""
    statement = syntax.statement_at(kernel.node, line)
    instance = snapshot.instance(kernel)
    if statement is None or statement is kernel.node or isinstance(statement, ast.FunctionDef) or instance is None:
        return None
    first, last = syntax.head_lines(statement)
    program = snapshot.program(kernel, instance)
    if program is None or not any(_comes_from(s.span, first, last, snapshot) for s in program.statements()):
        return None
    return LoweringQuestion(kernel.qualname, instance.text, first, last, buffer=buffer)


def _comes_from(span: Span | None, first: int, last: int, snapshot: Snapshot) -> bool:
    if span is None:
        return False
    outer = span.outermost()
    return outer.path == snapshot.source.path and first <= outer.line <= last


def _tile_lines(snapshot: Snapshot, kernel: Any, question: LoweringQuestion) -> str:
    """The statement's own lines of the tile program."""
    program = snapshot.program(kernel, snapshot.instance(kernel, question.instance))
    assert program is not None
    lines = [text for text, statement in program_lines(program)
             if statement is not None and _comes_from(statement.span, question.first_line, question.last_line, snapshot)]
    return "**tile program**\n" + _code("python", dedent(lines)) if lines else ""


# -- the kernel's name ---------------------------------------------------------------------------------------------------
def _kernel(snapshot: Snapshot, kernel: Any) -> Hover:
    instance = snapshot.instance(kernel)
    parts = [f"**{kernel.name}** — {_KINDS.get(kernel.kind, kernel.kind)}"]
    if instance is None:
        return Hover(parts[0], kernel.name_span)
    parts.append(f"`{instance.text}`" + _others(kernel))
    program = snapshot.program(kernel, instance)
    question = None
    if program is not None:
        parts.append(launch_markdown(program))
        if program.launches() and not program.attrs.get("incomplete"):
            question = LoweringQuestion(kernel.qualname, instance.text, kernel.span.line, kernel.span.end_line, whole=True)
        elif program.attrs.get("incomplete"):
            parts.append(f"not complete: {program.attrs['incomplete']}")
    return Hover("\n\n".join(p for p in parts if p), kernel.name_span, question)


_KINDS = {"lazy": "a factory of a `@T.prim_func`", "eager": "an eager `@tilelang.jit` kernel", "prim_func": "a `@T.prim_func`"}


def _others(kernel: Any) -> str:
    others = len(kernel.instances) - 1
    return "" if others < 1 else f" and {others} other instance{'s' if others > 1 else ''}"


def launch_markdown(program: TileProgram) -> str:
    """Grid, threads and the memory a block declares."""
    rows = []
    for launch in program.launches():
        rows.append(("grid", " × ".join(map(expr_text, launch.grid))))
        rows.append(("threads", " × ".join(expr_text(t) for i, t in enumerate(launch.threads) if i == 0 or expr_text(t) != "1")))
    shared = [b.size_bytes() for b in program.buffers() if b.is_shared() and b.view_of is None]
    if shared and all(s is not None for s in shared):
        rows.append(("shared memory declared", f"{sum(s for s in shared if s is not None):,} bytes a stage"))
    columns = [b.static_shape() for b in program.buffers() if b.scope == "shared.tmem"]
    if columns and all(c is not None and len(c) == 2 for c in columns):
        rows.append(("TMEM buffers", ", ".join(f"{c[0]} × {c[1]}" for c in columns if c)))
    return "\n".join(f"- {name}: **{value}**" for name, value in rows)


# -- what the compile worker adds ----------------------------------------------------------------------------------------
def lowered_markdown(question: LoweringQuestion, views: list[LoweredView], links: dict[str, str] | None = None) -> str:
    """The part of a hover that needed the compiler. ``links``: stage -> address of its document."""
    if question.whole:
        return _whole_markdown(views, links or {})
    parts: list[str] = []
    for view in sorted(views, key=lambda v: v.stage != "cuda"):
        if view.error:
            parts.append(f"not lowered for {view.target}: {view.error}")
            break
        lines = view.lines_of(question.first_line, question.last_line)
        if not lines:
            continue
        if view.stage == "cuda":
            words = mechanisms("\n".join(_with_helpers(view.text, lines)))
            chosen = "".join(f"\n- {text}" for line, text in view.facts.get("decisions") or () if question.first_line <= line <= question.last_line)
            layout = next((words for name, words in view.facts.get("layouts") or () if name == question.buffer), "")
            chosen += f"\n- layout: {layout}" if layout else ""
            parts.insert(0, (f"**lowers to** ({view.target}): {'; '.join(words)}" if words else f"**lowers to** ({view.target})") + chosen)
        parts.append(f"**{_STAGE_NAMES.get(view.stage, view.stage)}**\n" + _code("cpp" if view.stage == "cuda" else "python", dedent(lines)))
    return "\n\n".join(parts)


_STAGE_NAMES = {"thread": "IR", "device": "device module", "cuda": "CUDA", "tile": "tile program", "legalized": "legalized", "host": "host module",
                "ptx": "PTX", "sass": "SASS"}


def _with_helpers(text: str, lines: list[str]) -> list[str]:
    """Lines together with the bodies of the ``__device__`` functions they call: there the instructions stand."""
    import re

    called = set(re.findall(r"\b([A-Za-z_]\w*)\s*(?:<[^<>()]*>)?\(", "\n".join(lines)))
    found = list(lines)
    for match in re.finditer(r"__device__[^;{]*?\b([A-Za-z_]\w*)\s*\([^)]*\)\s*\{", text):
        if match.group(1) in called:
            end = text.find("\n}", match.end())
            found.append(text[match.end():end if end >= 0 else match.end() + 2000])
    return found


def _whole_markdown(views: list[LoweredView], links: dict[str, str]) -> str:
    parts: list[str] = []
    facts: dict[str, Any] = {}
    for view in views:
        if view.error:
            return f"not lowered for {view.target}: {view.error}"
        facts.update({k: v for k, v in view.facts.items() if v is not None})
    if facts:
        parts.append(f"for {views[0].target}\n\n{facts_markdown(facts)}")
    shown = " · ".join(f"[{_STAGE_NAMES.get(stage, stage)}]({address})" for stage, address in links.items())
    return "\n\n".join([*parts, *([shown] if shown else [])])


_FACT_NAMES = {"grid": "grid", "threads": "threads", "roles": "roles", "shared_bytes": "dynamic shared memory", "smem_bytes": "dynamic shared memory",
               "shared_buffers": "of which", "pipelines": "pipeline", "tmem_columns": "TMEM columns", "registers": "registers a thread",
               "spills": "spilled bytes", "barriers": "mbarriers"}


def facts_markdown(facts: dict[str, Any]) -> str:
    rows = []
    for key, name in _FACT_NAMES.items():
        value = facts.get(key)
        if key == "roles" and value is not None:
            rows.append(roles_markdown(value))
            continue
        if value in (None, "", [], (), 0):
            continue
        if key == "shared_buffers":
            again = ", some in the same place" if sum(size for _, size in value) > (facts.get("shared_bytes") or 1 << 40) else ""
            value = ", ".join(f"`{name}` {size:,}" for name, size in value) + again
        elif key == "pipelines":
            value = ", ".join(f"`{name}` {_stages(given, asked)}" for name, given, asked in value)
        elif key == "registers":
            value = f"{value}**, **no spills" if facts.get("spills") == 0 else value
        elif isinstance(value, (list, tuple)):
            value = " × ".join(str(v) for i, v in enumerate(value) if i == 0 or key != "threads" or v != 1)
        rows.append(f"- {name}: **{value:,} bytes**" if key in ("shared_bytes", "smem_bytes") and isinstance(value, int) else f"- {name}: **{value}**")
    return "\n".join(rows)


def _stages(given: int, asked: int) -> str:
    """How many stages a pipelined loop has, and what the text asked for where that is something else."""
    if given == 1:
        return "in 1 stage" if asked == 1 else f"runs serially ({asked} stages asked)"
    return f"in {given} stages" + (f" ({asked} asked; shared memory allows {given})" if given > asked else f" ({asked} asked)" if given < asked else "")


def _code(language: str, lines: list[str]) -> str:
    shown = lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        shown.append(f"… {len(lines) - MOST_LINES} more lines")
    body = "\n".join(shown).replace("```", "'''")
    return f"```{language}\n{body}\n```"


__all__ = ["Hover", "LoweringQuestion", "Trail", "hover", "lowered_markdown"]
