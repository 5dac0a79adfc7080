"""``tvm.target``: a target to compile for, and ``with target:`` around what is compiled for it."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..jit.surrounding import current_target, pop_target, push_target
from ..jit.targets import resolve
from ..target import chips


class Target:
    """``Target("cuda")``, ``Target("cuda -arch=sm_90a")``, ``Target({"kind": "cuda", "arch": "sm_90a"})``. Raises CompileError."""

    def __init__(self, target: Any, host: Any = None):
        self.chip: chips.Target = resolve(target)
        self.host = host
        self.kind = SimpleNamespace(name="cuda" if self.chip.kind == "cuda" else "llvm")
        self.arch = self.chip.name if self.chip.kind == "cuda" else ""
        self.attrs = {"arch": self.arch} if self.arch else {}
        self.keys = ["cuda", "gpu"] if self.arch else ["cpu"]

    @staticmethod
    def current(allow_none: bool = True) -> Any:
        found = current_target()
        if found is None and not allow_none:
            raise ValueError("no target is set: this is outside of every `with target:`")
        return found

    def __enter__(self) -> Target:
        push_target(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pop_target()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.chip == self.chip

    def __hash__(self) -> int:
        return hash(self.chip.name)

    def __str__(self) -> str:
        return f"cuda -arch={self.arch}" if self.arch else "llvm"

    __repr__ = __str__


__all__ = ["Target"]
