"""``tilelang.profiler``."""
from ..jit.profiler import Profiler, TensorSupplyType, do_bench

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]
