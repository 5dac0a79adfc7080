"""A program of loops as TIRx: a host function that checks the arguments, and the loops, which it calls; machine code through LLVM."""
from __future__ import annotations

from typing import Any

from .. import tvm_compat as T
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..records import dataclass
from ..source.span import Span
from .arguments import Plan, plan_arguments
from .host import HostBuilder, host_function
from .marks import LineMarks
from .narrow import storage_dtype
from .tir import TirEmitter

# Tiles of a block are plain arrays.
SCOPES = {"local.fragment": "global", "shared": "global", "shared.dyn": "global", "local": "global", "local.var": "global", "shared.tmem": "global",
          "global": ""}


@dataclass
class CpuModule:
    """``build()`` compiles; the function takes the program's parameters in order."""

    name: str
    program: TileProgram
    plan: Plan
    host: Any

    def text(self) -> tuple[str, list[Span | None]]:
        """The loops as TVMScript, and the source place of each line."""
        marks = LineMarks()
        loops = _loops(self.program, self.plan, f"{self.name}_loops", marks)
        return marks.strip(T.script(T.module({f"{self.name}_loops": loops})))

    def host_text(self) -> str:
        """The function as it is called: with the checks of the arguments."""
        return T.script(T.module({self.name: self.host}))

    def build(self) -> Any:
        loops = f"{self.name}_loops"
        compiled = T.build_llvm(T.module({self.name: self.host, loops: _loops(self.program, self.plan, loops)}))
        return compiled[self.name]


def emit_cpu(program: TileProgram) -> CpuModule:
    plan = plan_arguments(program)
    name = f"{plan.name}_loops"

    def call(b: HostBuilder) -> list[Any]:
        pointers = [T.pointer_to(storage_dtype(p.dtype), b.pointers[p]) for p in plan.params if isinstance(p, Buffer)]
        numbers = [b.emitter.var(v) for v in plan.bound]
        return [T.evaluate(T.extern(name, "int32", [*pointers, *numbers]))]

    return CpuModule(plan.name, program, plan, host_function(plan, "cpu", call))


def _loops(program: TileProgram, plan: Plan, name: str, marks: LineMarks | None = None) -> Any:
    """Takes pointers and numbers: the formats of narrow floats are this compiler's own business (emit.narrow)."""
    emitter = TirEmitter(SCOPES, compute_wide=True)
    emitter.marks = marks
    numbers = [emitter.var(v) for v in plan.bound]
    pointers, declared = [], []
    for p in plan.params:
        if isinstance(p, Buffer):
            pointer = T.pointer_var(emitter.name(p.name), storage_dtype(p.dtype))
            pointers.append(pointer)
            declared.append(T.declare(emitter.buffer(p, pointer), pointer))
    body = T.sequence([*declared, emitter.body(program.body)])
    return T.plain_function(name, [*pointers, *numbers], body)
