"""``tilelang.autotuner``."""
from ..jit.autotune import AutoTuner, autotune, set_autotune_inputs

__all__ = ["AutoTuner", "autotune", "set_autotune_inputs"]
