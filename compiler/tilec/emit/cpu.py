"""A program of loops as one TIRx function, and its machine code through LLVM."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import tvm_compat as T
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from .tir import TirEmitter

# Tiles of a block are plain arrays.
SCOPES = {"local.fragment": "global", "shared": "global", "shared.dyn": "global", "local": "global", "local.var": "global", "shared.tmem": "global",
          "global": ""}


@dataclass
class CpuModule:
    """``module``: the IRModule; ``build()`` compiles it; the function takes the program's parameters in order."""

    module: Any
    name: str

    def text(self) -> str:
        return T.script(self.module)

    def host_text(self) -> str:
        """The function as it is called: with TVM's checks of the arguments."""
        return T.script(T.packed_cpu(self.module))

    def build(self) -> Any:
        compiled = T.build_cpu(self.module)
        return compiled[self.name]


def emit_cpu(program: TileProgram) -> CpuModule:
    emitter = TirEmitter(SCOPES)
    params = [emitter.buffer(p) if isinstance(p, Buffer) else emitter.var(p) for p in program.params]
    body = emitter.body(program.body)
    name = "main" if not program.name.isidentifier() else program.name
    made = T.function(name, params, body, {"tirx.noalias": True})
    return CpuModule(T.module({name: made}), name)
