"""The stages in order, as data, and compiling a tile program through them."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from .ir.buffer import TMEM, Buffer
from .ir.build import const_int
from .ir.expr import Var
from .ir.printer import expr_text, program_lines
from .ir.program import TileProgram
from .ir.stmt import Launch
from .records import dataclass
from .source.span import Span
from .target.chips import Target
from .transform.configs import FAST_MATH, is_set
from .transform.errors import LoweringError
from .transform.registry import LOWER, Pass, run_passes
from .transform.sizes import assuming, row_lengths

LineMap = list[Span | None]  # the source place of each line of a text


@dataclass(frozen=True)
class Stage:
    name: str
    doc: str
    kinds: tuple[str, ...]  # of targets that have it


STAGES: tuple[Stage, ...] = (
    Stage("tile", "the tile program: what the front end understood", ("cuda", "cpu")),
    Stage("legalized", "after LowerAndLegalize", ("cuda", "cpu")),
    Stage("thread", "after OptimizeForTarget: what one thread does (CPU: loops over tiles)", ("cuda", "cpu")),
    Stage("host", "the host module: argument checks and launch (TVMScript)", ("cuda", "cpu")),
    Stage("device", "the device module (TVMScript)", ("cuda", "cpu")),
    Stage("cuda", "CUDA source", ("cuda",)),
    Stage("ptx", "PTX, by nvcc", ("cuda",)),
    Stage("sass", "machine code, by nvcc and cuobjdump", ("cuda",)),
)


class StageError(ValueError):
    """A stage that does not exist or that the target does not have."""


@dataclass(eq=False)
class Artifact:
    """A program compiled for a target: every stage's text with the source place of each line, and facts."""

    program: TileProgram
    target: Target
    thread_program: TileProgram
    legalized: TileProgram
    notes: list[str] = field(default_factory=list)
    assumed: dict[Var, int] = field(default_factory=dict)  # run-time extents the kernels take for multiples of numbers
    _general: Artifact | None = None
    _texts: dict[str, tuple[str, LineMap]] = field(default_factory=dict)
    _cuda: Any = None
    _cubin: Any = None
    _host: Any = None

    # -- texts ---------------------------------------------------------------------------------------------------
    def text(self, stage: str) -> str:
        """The text of a stage. Raises StageError, LoweringError, ToolkitError (ptx, sass) or TvmError (host, device)."""
        return self._stage(stage)[0]

    def line_map(self, stage: str) -> LineMap:
        return self._stage(stage)[1]

    def runs(self, stage: str) -> list[tuple[int, int, int]]:
        """(first line, last line, source line) of each run of lines that came from one source line, lines from 1."""
        found: list[tuple[int, int, int]] = []
        for number, span in enumerate(self.line_map(stage), 1):
            if span is None:
                continue
            line = place_in(span, self.program.path)
            if found and found[-1][2] == line and found[-1][1] == number - 1:
                found[-1] = (found[-1][0], number, line)
            else:
                found.append((number, number, line))
        return found

    def _stage(self, stage: str) -> tuple[str, LineMap]:
        known = next((s for s in STAGES if s.name == stage), None)
        if known is None or self.target.kind not in known.kinds:
            names = ", ".join(s.name for s in STAGES if self.target.kind in s.kinds)
            raise StageError(f"there is no stage {stage!r} for {self.target.name}; stages: {names}")
        if stage not in self._texts:
            self._texts[stage] = _MAKERS[stage](self)
        return self._texts[stage]

    def general(self) -> Artifact:
        """The program without assumptions on sizes: for arguments that do not fit ``assumed``, or that start at odd addresses."""
        if not self.assumed:
            return self
        if self._general is None:
            self._general = compile_program(self.program, self.target, any_size=True)
        return self._general

    def decisions(self) -> list[Any]:
        """What was chosen for copies, loops and matrix operations, and why nothing better (``transform.context.Decision``)."""
        return list(self.thread_program.attrs.get("decisions", ()))

    def layouts(self) -> list[tuple[Any, Any]]:
        """Tiles with their layouts: ``analysis.layout.FragmentLayout`` of fragments, how shared tiles are swizzled."""
        return list(self.thread_program.attrs.get("layouts", ()))

    def stages(self) -> dict[Any, int]:
        """By the place of a pipelined loop: how many stages it was given. Loops that run serially are not in it."""
        return dict(self.thread_program.attrs.get("stages", {}))

    # -- products ------------------------------------------------------------------------------------------------
    def cuda(self) -> Any:
        """The CUDA module: text, lines, kernels (``emit.cuda.CudaModule``)."""
        if self._cuda is None:
            from .emit.cuda import emit_cuda

            self._cuda = emit_cuda(self.thread_program, self.target)
        return self._cuda

    def cubin(self) -> Any:
        """The compiled kernels (``build.nvcc.Compiled``). Raises ToolkitError."""
        if self._cubin is None:
            from .build.nvcc import compile_source

            self._cubin = compile_source(self.cuda().text, self.target, "cubin", is_set(self.program, FAST_MATH))
        return self._cubin

    def host_callable(self) -> Callable[..., Any]:
        """CPU only: a function of the program's parameters in order (torch CPU tensors, numbers)."""
        if self.target.kind != "cpu":
            raise StageError("host_callable is for the CPU; kernels for a GPU are launched by tilec.runtime")
        if self._host is None:
            from .emit.cpu import emit_cpu

            self._host = emit_cpu(self.thread_program).build()
        return self._host

    def remarks(self) -> list[str]:
        """What ptxas said about the speed of the compiled kernels; none before they are."""
        return [] if self._cubin is None else [str(r) for r in self._cubin.remarks()]

    def facts(self) -> dict[str, Any]:
        """Grid, threads, shared memory, tensor memory columns; registers and spills once a cubin was made."""
        launches = [_launch_facts(launch) for launch in self.thread_program.launches() or self.program.launches()]
        facts: dict[str, Any] = {"target": self.target.name, "launches": launches, "notes": list(self.notes)}
        columns = tensor_columns(self.program)
        if columns:
            facts["tmem_columns"] = columns
        if self._cubin is not None:
            for name, resources in self._cubin.resources.items():
                facts.setdefault("resources", {})[name] = {"registers": resources.registers, "spill_bytes": resources.spill_bytes,
                                                           "stack_bytes": resources.stack_bytes}
            facts["notes"] += self.remarks()
        return facts


def _launch_facts(launch: Launch) -> dict[str, Any]:
    return {"grid": [expr_text(e) for e in launch.grid], "threads": [const_int(t) or expr_text(t) for t in launch.threads],
            "shared_bytes": launch.attrs.get("shared_bytes")}


def tensor_columns(program: TileProgram) -> int:
    """32-bit columns of tensor memory that the program's buffers span, before rounding up."""
    from .ir import dtypes

    total = 0
    for buffer in program.buffers():
        if buffer.scope == TMEM and buffer.static_shape() and buffer.dtype != dtypes.UNKNOWN:
            shape = buffer.static_shape() or ()
            total += shape[-1] * dtypes.bits(buffer.dtype) // 32
    return total


def place_in(span: Span, path: str) -> int:
    """The line of the kernel's own file that a place belongs to (macros and helpers: the call)."""
    current: Span | None = span
    while current is not None:
        if current.path == path and current.caller is None:
            return current.line
        current = current.caller
    return span.outermost().line


# -- making each stage ------------------------------------------------------------------------------------------------------
def _printed(program: TileProgram) -> tuple[str, LineMap]:
    lines = program_lines(program)
    return "\n".join(text for text, _ in lines) + "\n", [s.span if s is not None else None for _, s in lines]


def _has_tvm() -> bool:
    """Whether TVM is installed; a stand-in that scripts import has no file."""
    import importlib.util

    spec = importlib.util.find_spec("tvm")
    return spec is not None and spec.origin is not None


def _launches_as_text(a: Artifact) -> str:
    """The launches alone: without TVM there is no host module to show."""
    lines = [f"# {a.program.name}: what its call launches (with TVM installed this is the host module)"]
    for spec in a.cuda().kernels:
        grid = ", ".join(expr_text(e) for e in spec.grid)
        names = ", ".join(p.name for p in spec.arguments)
        lines.append(f"{spec.name}<<<({grid}), {spec.block}, {spec.shared_bytes}>>>({names})")
    return "\n".join(lines) + "\n"


def _host_stage(a: Artifact) -> tuple[str, LineMap]:
    if a.target.kind == "cpu":
        from .emit.cpu import emit_cpu

        text = emit_cpu(a.thread_program).host_text()
    elif not _has_tvm():
        text = _launches_as_text(a)
    else:
        from .emit.modules import host_text

        text = host_text(a.thread_program, a.cuda().kernels, a.target)
    return text, [None] * text.count("\n")


def _device_stage(a: Artifact) -> tuple[str, LineMap]:
    if a.target.kind == "cpu":
        from .emit.cpu import emit_cpu

        return emit_cpu(a.thread_program).text()
    from .emit.modules import device_text

    return device_text(a.thread_program, a.cuda().kernels)


def _cuda_stage(a: Artifact) -> tuple[str, LineMap]:
    module = a.cuda()
    return module.text, module.lines


def _ptx_stage(a: Artifact) -> tuple[str, LineMap]:
    from .build.nvcc import compile_source

    text = compile_source(a.cuda().text, a.target, "ptx", is_set(a.program, FAST_MATH)).data.decode("utf-8", "replace")
    return text, [None] * text.count("\n")


def _sass_stage(a: Artifact) -> tuple[str, LineMap]:
    from .build.nvcc import disassemble

    text = disassemble(a.cubin().data)
    return text, [None] * text.count("\n")


_MAKERS: dict[str, Callable[[Artifact], tuple[str, LineMap]]] = {
    "tile": lambda a: _printed(a.program), "legalized": lambda a: _printed(a.legalized), "thread": lambda a: _printed(a.thread_program),
    "host": _host_stage, "device": _device_stage, "cuda": _cuda_stage, "ptx": _ptx_stage, "sass": _sass_stage,
}


def compile_program(program: TileProgram, target: Target, observer: Callable[[Pass, TileProgram], None] | None = None, any_size: bool = False) -> Artifact:
    """Lower a tile program for a target. Raises LoweringError, with a place, for what cannot be compiled.

    ``any_size``: nothing is assumed of run-time extents.
    """
    incomplete = program.attrs.get("incomplete")
    if incomplete:
        raise LoweringError(f"{program.name} has no complete tile program: {incomplete}", program.span)
    legalized = [program]

    def watch(p: Pass, result: TileProgram) -> None:
        if p.phase == LOWER:
            legalized[0] = result
        if observer is not None:
            observer(p, result)

    with assuming({} if any_size or target.kind == "cpu" else row_lengths(program)) as assumption:
        lowered = run_passes(program, target, watch)
    made = Artifact(program, target, lowered, legalized[0], list(lowered.attrs.get("notes", ())))
    if assumption.used:
        made.assumed = dict(assumption.multiples)
        sizes = ", ".join(f"{var.name} of {factor}" for var, factor in made.assumed.items())
        made.notes.append(f"run-time extents are taken for multiples ({sizes}); other sizes run a version that is compiled when it is needed")
    return made


def outputs_of(program: TileProgram) -> list[Buffer]:
    """The buffers a run compares: the declared outputs, else every global buffer the kernel writes."""
    if program.outputs:
        return list(program.outputs)
    from .ir.buffer import GLOBAL, Region
    from .ir.ops import OPS
    from .ir.stmt import Store, TileOp

    written: dict[Buffer, None] = {}
    for s in program.statements():
        if isinstance(s, Store) and s.buffer.storage().scope == GLOBAL:
            written[s.buffer.storage()] = None
        elif isinstance(s, TileOp) and s.op in OPS:
            for name in OPS[s.op].writes:
                region = s.args.get(name)
                if isinstance(region, Region) and region.buffer.storage().scope == GLOBAL:
                    written[region.buffer.storage()] = None
    return [p for p in program.params if isinstance(p, Buffer) and p in written]
