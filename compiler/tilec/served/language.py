"""``tilelang.language``: decorators and types that exist outside kernels; every other name is asked of the language."""
from ..jit.language import macro
from ..jit.trace import PrimFunc, prim_func
from ..jit.values import dtype

__all__ = ["PrimFunc", "dtype", "macro", "prim_func"]
