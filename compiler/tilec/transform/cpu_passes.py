"""The CPU lowering as a pass."""
from __future__ import annotations

from ..ir.program import TileProgram
from .context import PassContext
from .cpu import lower_to_loops


def lower_loops(program: TileProgram, ctx: PassContext) -> TileProgram:
    return lower_to_loops(program)
