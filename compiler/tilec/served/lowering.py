"""``tilelang.lower``: a prim_func as text, without loading it."""
from __future__ import annotations

from typing import Any

from ..jit.decorators import compile
from ..jit.kernel import JITKernel


class Lowered:
    """What lowering gives: ``kernel_source`` and the kernel it belongs to."""

    def __init__(self, kernel: JITKernel):
        self.kernel = kernel
        self.params = kernel.params

    @property
    def kernel_source(self) -> str:
        return self.kernel.get_kernel_source()

    @property
    def host_source(self) -> str:
        return self.kernel.get_host_source()


def lower(func_or_mod: Any, target: Any = "auto", *rest: Any, **options: Any) -> Lowered:
    """Compile a ``@T.prim_func`` to text. Raises CompileError."""
    return Lowered(compile(func_or_mod, target=target))
