"""Compiling and calling kernels from a running Python program: the arguments TileLang's own decorators take.

May import: all of tilec.
"""
from .decorators import compile, jit, lazy_jit, par_compile
from .errors import CompileError
from .kernel import JITKernel

__all__ = ["CompileError", "JITKernel", "compile", "jit", "lazy_jit", "par_compile"]
