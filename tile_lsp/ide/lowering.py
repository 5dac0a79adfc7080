"""Lowering one kernel of a text in this process: for the command line and inside the compile worker, never in the server."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilec.check.diagnostic import ERROR, Diagnostic
from tilec.evaluate import analyse, instantiate
from tilec.ir.program import TileProgram
from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.span import Span
from tilec.target import chips

from ..releases import manifest
from .given import misfit
from .layout_words import layout_facts
from .lowered import RESOURCES
from .thread_roles import thread_roles


class Refused(Exception):
    """The kernel cannot be lowered; the text is one paragraph with the place. ``diagnostics``: what the checker found."""

    def __init__(self, message: str, diagnostics: tuple[Diagnostic, ...] = ()):
        super().__init__(message)
        self.diagnostics = diagnostics


@dataclass(frozen=True)
class Found:
    """A kernel at one instance."""

    analysis: Any
    definition: Any
    instance: Any
    program: TileProgram


def find_program(path: str, text: str, kernel: str = "", instance: str = "") -> Found:
    """The kernel of that name (or the only one) at the wanted instance (or its first). Raises Refused."""
    source = SourceFile(path, text)
    analysis = analyse(source, instances=(instance,) if instance else ())
    if instance and analysis.instance_errors:  # not an expression of this file: perhaps the text of a known instance
        again = analyse(source)
        if any(i.text == instance for k in again.kernels for i in k.instances):
            analysis = again
        else:
            raise Refused(f"{path}: {analysis.instance_errors[0]}")
    definition = _kernel(path, analysis, kernel)
    chosen = next((i for i in definition.instances if i.text == instance), definition.instances[0] if definition.instances else None)
    if chosen is None:
        raise Refused(f"{path}: no arguments are known for {definition.name}; give some with --instance '{definition.name}(...)'")
    program = instantiate(analysis, definition, chosen)
    wrong = misfit(definition, chosen, program) if chosen.origin in ("command", "directive") else []
    if wrong:
        raise Refused(f"{path}: {wrong[0]}")
    return Found(analysis, definition, chosen, program)


def _kernel(path: str, analysis: Any, name: str) -> Any:
    names = ", ".join(k.qualname for k in analysis.kernels)
    if not analysis.kernels:
        errors = analysis.source.syntax_errors
        why = f"; line {errors[0][1].line}: {errors[0][0]}" if errors else ""
        raise Refused(f"{path} has no TileLang kernel{why}")
    if name:
        found = analysis.kernel(name)
        if found is None:
            raise Refused(f"{path} has no kernel {name!r}; its kernels: {names}")
        return found
    with_instance = [k for k in analysis.kernels if any(i.origin == "command" for i in k.instances)]
    candidates = with_instance or analysis.kernels
    if len(candidates) > 1:
        raise Refused(f"{path} has several kernels; name one as {path}::NAME: {names}")
    return candidates[0]


def check(found: Found, target: chips.Target, version: str = "") -> None:
    """Refuse what the checker calls an error, with the same diagnostics."""
    from tilec.check.checker import check_analysis

    definition, program = found.definition, found.program
    only = replace(found.analysis, kernels=[replace(definition, instances=[found.instance])])
    diagnostics = check_analysis(only, [target], manifest.load(version or "latest"), programs=lambda kernel, instance: program)
    errors = tuple(d for d in diagnostics if d.severity == ERROR and (d.kernel or _inside(d.span, definition)))
    if errors:
        raise Refused("; ".join(f"{d.span}: {d.code} {d.message}" for d in errors), errors)
    if program.attrs.get("incomplete"):
        raise Refused(f"{definition.name_span}: {program.name} is not fully known: {program.attrs['incomplete']}")


def _inside(span: Span, definition: Any) -> bool:
    """The place belongs to the top-level statement that holds the kernel."""
    top = definition.outermost
    return min(top.lineno, definition.first_line) <= span.outermost().line <= (top.end_lineno or top.lineno)


def compile_checked(found: Found, target: chips.Target, version: str = "", observer: Callable[..., None] | None = None) -> Any:
    """The artifact of a program. Raises Refused for everything that can be wrong with the user's program."""
    from tilec.pipeline import compile_program
    from tilec.transform.errors import LoweringError

    check(found, target, version)
    try:
        return compile_program(found.program, target, observer)
    except LoweringError as error:
        raise Refused(_with_place(str(error), error.span)) from error


def stage_text(artifact: Any, stage: str) -> str:
    """One stage's text. Raises Refused."""
    from tilec.build.nvcc import ToolkitError
    from tilec.pipeline import StageError
    from tilec.transform.errors import LoweringError

    try:
        return artifact.text(stage)
    except LoweringError as error:
        raise Refused(_with_place(str(error), error.span)) from error
    except (StageError, ToolkitError) as error:
        raise Refused(str(error)) from error
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("tvm", "tvm_ffi"):
            raise
        raise Refused(f"the stage {stage} needs TVM, which is not installed here: pip install 'tilec[compile]'") from error
    except Exception as error:
        if type(error).__name__ != "TvmError":
            raise
        raise Refused(f"TVM refused the program: {error}") from error


def _with_place(message: str, span: Span | None) -> str:
    return f"{span.outermost()}: {message}" if span is not None else message


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """A ``lower`` request as the workers take it: ``{path, text, kernel, instance, target, stage}`` -> ``{text, lines, facts}`` or ``{error}``."""
    try:
        found = find_program(request["path"], request["text"], request.get("kernel", ""), request.get("instance", ""))
        if request["stage"] == "tile":
            return _tile_answer(found)
        artifact = compile_checked(found, chips.find(request["target"]), request.get("tilelang_version", ""))
        if request["stage"] == RESOURCES:
            return {"text": "", "lines": [], "facts": _compiled_facts(artifact)}
        text = stage_text(artifact, request["stage"])
        return {"text": text, "lines": [list(r) for r in artifact.runs(request["stage"])], "facts": facts_of(artifact)}
    except (Refused, ValueError) as error:
        return {"error": str(error)}


def _tile_answer(found: Found) -> dict[str, Any]:
    """The tile program needs no compiler."""
    from tilec.ir.printer import program_lines

    lines = program_lines(found.program)
    places = [[n, n, s.span.outermost().line] for n, (_, s) in enumerate(lines, 1) if s is not None and s.span is not None]
    return {"text": "\n".join(text for text, _ in lines) + "\n", "lines": places, "facts": {}}


def _compiled_facts(artifact: Any) -> dict[str, Any]:
    """The facts with registers and spills; these need machine code."""
    from tilec.build.nvcc import ToolkitError

    try:
        artifact.cubin()
    except ToolkitError as error:
        raise Refused(str(error)) from error
    return facts_of(artifact)


def facts_of(artifact: Any) -> dict[str, Any]:
    """What a hover shows of a kernel: its first launch, its shared memory by buffer, its pipelines, and once compiled its registers."""
    facts = artifact.facts()
    launch = (facts.get("launches") or [{}])[0]
    resources: dict[str, Any] = next(iter((facts.get("resources") or {}).values()), {})
    return {"grid": launch.get("grid"), "threads": launch.get("threads"), "shared_bytes": launch.get("shared_bytes"),
            "shared_buffers": _shared_buffers(artifact.thread_program), "pipelines": _pipelines(artifact),
            "tmem_columns": facts.get("tmem_columns"), "registers": resources.get("registers"), "spills": resources.get("spill_bytes"),
            "roles": thread_roles(artifact.legalized) if artifact.target.kind == "cuda" else None, "notes": facts.get("notes") or [], "decisions": _decisions(artifact),
            "layouts": layout_facts(artifact)}


def _decisions(artifact: Any) -> list[list[Any]]:
    """(line, what was chosen for it and why nothing better)."""
    return [[d.span.outermost().line, d.text()] for d in artifact.decisions() if d.span is not None]


def _shared_buffers(program: TileProgram) -> list[list[Any]]:
    """Name and bytes of each shared tile, all stages of a pipeline counted."""
    found: dict[str, int] = {}
    for buffer in program.buffers():
        size = buffer.size_bytes()
        if buffer.is_shared() and buffer.view_of is None and size:
            found[buffer.name] = found.get(buffer.name, 0) + size
    return [[name, size] for name, size in found.items()]


def _pipelines(artifact: Any) -> list[list[Any]]:
    """Loop variable, stages and stages asked for of each pipelined loop; one stage: it runs serially."""
    from tilec.ir.stmt import For

    given = artifact.stages()
    return [[s.var.name, given.get(s.span, 1), int(s.attrs["num_stages"])] for s in artifact.program.statements()
            if isinstance(s, For) and s.kind == "pipelined" and isinstance(s.attrs.get("num_stages"), int) and s.attrs["num_stages"] > 0]
