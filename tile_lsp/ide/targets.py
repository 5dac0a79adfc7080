"""Which chip a kernel is shown for when the user has chosen none."""
from __future__ import annotations

from tilec.ir.buffer import TMEM
from tilec.ir.program import TileProgram
from tilec.target import chips

from .preferences import Preferences

USUAL = "sm_90a"
_BLACKWELL = "sm_100a"


def lowering_target(program: TileProgram | None, preferences: Preferences, requested: str = "") -> str:
    """The requested target, the user's, the kernel's own, the project's first that fits, or the one whose features the kernel needs."""
    for name in (requested, preferences.target, _declared(program)):
        if name:
            try:
                target = chips.find(name)
            except ValueError:
                continue
            if target.kind == "cuda":
                return target.name
    needs_tmem = program is not None and any(b.scope == TMEM for b in program.buffers())
    for target in map(chips.find, preferences.targets):
        if target.kind == "cuda" and (target.tcgen05 or not needs_tmem):
            return target.name
    return _BLACKWELL if needs_tmem else USUAL


def _declared(program: TileProgram | None) -> str:
    """What ``@tilelang.jit(target=...)`` says, as far as it names a chip."""
    value = program.attrs.get("target") if program is not None else None
    return value if isinstance(value, str) and "sm_" in value else ""
