"""``tilelang.errors``."""
from ..jit.errors import CompileError

TileLangError = CompileError

__all__ = ["CompileError", "TileLangError"]
