"""The CPU lowering as a pass."""
from __future__ import annotations

from dataclasses import replace

from ..ir.program import TileProgram
from .context import PassContext
from .cpu import lower_to_loops
from .cpu.views import resolve_views


def lower_loops(program: TileProgram, ctx: PassContext) -> TileProgram:
    program = lower_to_loops(program)
    return replace(program, body=resolve_views(program.body))
