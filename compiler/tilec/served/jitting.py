"""``tilelang.jit``: a module and a decorator at once."""
from ..jit.decorators import JITFunction as JITImpl
from ..jit.decorators import compile, jit, lazy_jit, par_compile
from ..jit.kernel import JITKernel

__all__ = ["JITImpl", "JITKernel", "compile", "jit", "lazy_jit", "par_compile"]
