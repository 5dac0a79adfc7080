"""Settings of ``pass_configs`` that this compiler heeds. Keys are texts or names of ``PassConfigKey``, whichever the front end saw."""
from __future__ import annotations

from ..ir.program import TileProgram

FAST_MATH = "enable_fast_math"
NO_WARP_SPECIALISATION = "disable_warp_specialized"
NO_TMA = "disable_tma_lower"


def is_set(program: TileProgram, name: str) -> bool:
    """Whether a setting is given as True."""
    configs = program.attrs.get("pass_configs")
    if not isinstance(configs, dict):
        return False
    return any(value is True and str(getattr(key, "name", key)).lower().endswith(name) for key, value in configs.items())
