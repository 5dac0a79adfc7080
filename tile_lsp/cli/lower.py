"""``tile-lsp lower``: what a kernel becomes, at any stage, as text. Exit 0: printed, 2: could not."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .main import EXIT_FAILED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from .kernel_file import KernelFile


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("lower", help="print what a kernel becomes: tile program, IR, CUDA, PTX, SASS",
                                   description="Print a kernel at one stage of its compilation.")
    parser.add_argument("file", metavar="FILE[::KERNEL]", nargs="?", help="the file, and the kernel if it has several")
    parser.add_argument("--stage", default="", help="tile, legalized, thread, host, device, cuda, ptx or sass (default: cuda; for the CPU: device)")
    parser.add_argument("--target", metavar="CHIP", default="", help="sm_80, sm_90a, sm_100a, cpu ... (default: the kernel's own, else one that fits)")
    parser.add_argument("--tilelang-version", metavar="VERSION", default="", help="the release whose API the kernel uses")
    parser.add_argument("--instance", metavar="CALL", default="", help="the arguments, 'matmul(1024, 1024, 1024, block_N=128)'")
    parser.add_argument("--passes", action="store_true", help="list the stages and passes and leave")
    parser.add_argument("--diff-pass", metavar="NAME", default="", help="show what one pass changed instead of a stage")
    parser.add_argument("--explain", action="store_true", help="say for each copy, loop and matrix operation which mechanism was chosen, and why no better one")
    parser.add_argument("--output", metavar="FILE", help="write there instead of to standard output")


def execute(args: argparse.Namespace) -> int:
    if args.passes:
        print(_passes(args.target), end="")
        return EXIT_OK
    if not args.file:
        raise UsageError("lower: which file? tile-lsp lower FILE[::KERNEL]")
    from ..ide.lowering import Refused
    from .kernel_file import read

    file = read(args.file)
    try:
        text = _lower(args, file)
    except Refused as refused:
        return _refuse(file, refused)
    if args.output:
        Path(args.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return EXIT_OK


def _lower(args: argparse.Namespace, file: KernelFile) -> str:
    from ..ide.lowering import compile_checked, find_program, stage_text
    from ..ide.preferences import Preferences
    from ..ide.targets import lowering_target

    found = find_program(file.path, file.text, file.kernel, args.instance)
    target = _target(args.target) if args.target else _target(lowering_target(found.program, Preferences()))
    if args.stage == "tile" and not args.diff_pass:
        from tilec.ir.printer import program_text

        return program_text(found.program)
    observer = _PassDiff(args.diff_pass, target) if args.diff_pass else None
    artifact = compile_checked(found, target, _version(args.tilelang_version), observer)
    if observer is not None:
        return observer.text(found.program)
    if args.explain:
        return _explained(artifact, file)
    return stage_text(artifact, args.stage or ("device" if target.kind == "cpu" else "cuda"))


def _explained(artifact: Any, file: KernelFile) -> str:
    """The compiler's decisions in the order of the source."""
    decisions = sorted(artifact.decisions(), key=lambda d: d.span.line if d.span is not None else 0)
    lines = [f"{file.line(d.span.line)}: {d.text()}" if d.span is not None else d.text() for d in decisions] + [f"note: {n}" for n in artifact.notes] + _assembled(artifact)
    return "\n".join(lines) + "\n" if lines else f"nothing was to be chosen for {artifact.target.name}\n"


def _assembled(artifact: Any) -> list[str]:
    """What the assembler has to say of the kernel's speed, where there is a compiler for it."""
    from tilec.build.nvcc import ToolkitError, can_compile

    if artifact.target.kind != "cuda" or not can_compile(artifact.target):
        return []
    try:
        artifact.cubin()
    except ToolkitError as error:
        return [f"note: {error}"]
    spilled = [f"note: {name} spills {r.spill_bytes} bytes of registers a thread to memory" for name, r in artifact.cubin().resources.items() if r.spill_bytes]
    return [f"note: {r}" for r in artifact.remarks()] + spilled


def _refuse(file: KernelFile, refused: Exception) -> int:
    """The checker's diagnostics as ``check`` shows them, or one paragraph."""
    from .formats.concise import line

    diagnostics = getattr(refused, "diagnostics", ())
    for diagnostic in diagnostics:
        print(line(file.diagnostic(diagnostic)), file=sys.stderr)
    if diagnostics:
        print(f"tile-lsp: {file.path} is not lowered because of {len(diagnostics)} error{'s' if len(diagnostics) > 1 else ''}.", file=sys.stderr)
    else:
        print(f"tile-lsp: {file.words(str(refused))}", file=sys.stderr)
    return EXIT_FAILED


class _PassDiff:
    """Watches the passes and keeps the program before and after one of them."""

    def __init__(self, name: str, target) -> None:
        from tilec.transform.registry import passes_for

        names = [p.name for p in passes_for(target)]
        if name not in names:
            raise UsageError(f"--diff-pass {name}: no such pass for {target.name}; passes: {', '.join(names)}")
        self._name = name
        self._before: Any = None
        self._pair: tuple[Any, Any] | None = None

    def __call__(self, p, result) -> None:
        if p.name == self._name:
            self._pair = (self._before, result)
        self._before = result

    def text(self, program) -> str:
        import difflib

        from tilec.ir.printer import program_text

        assert self._pair is not None
        before, after = (program_text(p or program).splitlines(keepends=True) for p in self._pair)
        lines = list(difflib.unified_diff(before, after, f"before {self._name}", f"after {self._name}"))
        return "".join(lines) or f"{self._name} changed nothing\n"


def _passes(target: str) -> str:
    from tilec.pipeline import STAGES
    from tilec.transform.registry import passes_for

    chosen = _target(target or "sm_90a")
    lines = [f"stages for {chosen.name}:"]
    lines += [f"  {s.name:20} {s.doc}" for s in STAGES if chosen.kind in s.kinds]
    lines += ["passes, in order:"]
    lines += [f"  {p.name:20} {p.phase}: {p.doc}" for p in passes_for(chosen)]
    return "\n".join(lines) + "\n"


def _target(name: str):
    from tilec.target import chips

    try:
        return chips.find(name)
    except ValueError as error:
        raise UsageError(f"--target: {error}") from None


def _version(text: str) -> str:
    from .checking.plan import known_version

    return known_version(text) if text else ""

