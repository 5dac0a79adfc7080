"""Compiling and calling kernels from a running Python program: the arguments TileLang's own decorators take.

May import: all of tilec.
"""
from __future__ import annotations

import sys
import types
from typing import Any

from .decorators import compile, jit, lazy_jit, par_compile
from .errors import CompileError
from .kernel import JITKernel

__all__ = ["CompileError", "JITKernel", "compile", "jit", "lazy_jit", "par_compile"]


class _Callable(types.ModuleType):
    """``tilec.jit`` is this module and, as with TileLang, the decorator."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return jit(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
