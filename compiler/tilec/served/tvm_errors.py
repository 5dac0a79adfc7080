"""``tvm.error``: what TVM raises where a kernel cannot be compiled is this compiler's CompileError."""
from ..jit.errors import CompileError

TVMError = CompileError
InternalError = CompileError

__all__ = ["InternalError", "TVMError"]
