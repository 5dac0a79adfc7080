"""``tilelang``: the names of the package itself."""
from __future__ import annotations

import logging

from ..jit.decorators import compile, jit, lazy_jit, par_compile
from ..jit.kernel import JITKernel
from ..jit.profiler import Profiler, TensorSupplyType, do_bench
from ..jit.values import dtype as DataType
from .environment import disable_cache, enable_cache, is_cache_enabled
from .integers import cdiv, next_power_of_2
from .lowering import lower
from .passes import PassConfigKey
from .tuning import autotune

__version__ = "0.1.15"


def set_log_level(level: int | str) -> None:
    """Of the logger named ``tilelang``."""
    logging.getLogger("tilelang").setLevel(level)


__all__ = ["DataType", "JITKernel", "PassConfigKey", "Profiler", "TensorSupplyType", "__version__", "autotune", "cdiv", "compile", "disable_cache", "do_bench",
           "enable_cache", "is_cache_enabled", "jit", "lazy_jit", "lower", "next_power_of_2", "par_compile", "set_log_level"]
