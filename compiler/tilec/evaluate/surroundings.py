"""What the Python around kernels says about them: compilations that a test expects to fail, and the target they are for."""
from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..records import dataclass
from .blocks import statements_within

_RAISES = ("raises", "assertRaises", "assertRaisesRegex")
# Decorators of tilelang.testing that keep a test for other GPUs than NVIDIA's, and the kind of target meant.
_REQUIRED_KINDS = {"requires_metal": "metal", "requires_metal4": "metal", "requires_rocm": "hip", "requires_cdna": "hip"}


_AMD = ("RDNA", "gfx9", "gfx1", "mfma")  # generations of chips and their matrix instructions


@dataclass(slots=True, eq=False)
class HostTarget:
    """``tvm.target.Target(spec)``: what it was made from."""

    spec: Any


class Surroundings:
    """Where the evaluation of host code is: inside which ``with`` statements, in a test of what."""

    def __init__(self) -> None:
        self.failing = 0  # depth of `with pytest.raises(...)`
        self.tracing = False  # what is made now is not compiled (``get_tir``)
        self.targets: list[str] = []  # of `with Target(...)` and of tests that require a kind of GPU, innermost last

    def read(self, text: str) -> None:
        """A file whose tensors all lie on Apple's GPUs is for Metal; one that speaks of AMD's chips, for those."""
        if ('"mps"' in text or "torch.mps" in text) and "cuda" not in text:
            self.targets.append("metal")
        elif any(word in text for word in _AMD) and "CUDA" not in text and "requires_cuda" not in text:
            self.targets.append("hip")

    @contextmanager
    def entered(self, item: ast.expr, value: Any) -> Iterator[bool]:
        """The body of ``with item``; gives whether that body is expected to raise."""
        fails, target = expects_failure(item), target_text(value.spec) if isinstance(value, HostTarget) else None
        self.failing += fails
        if target is not None:
            self.targets.append(target)
        try:
            yield fails
        finally:
            self.failing -= fails
            if target is not None:
                self.targets.pop()

    @contextmanager
    def required(self, kind: str | None) -> Iterator[None]:
        """The run of a test for one kind of GPU."""
        if kind is not None:
            self.targets.append(kind)
        try:
            yield
        finally:
            if kind is not None:
                self.targets.pop()

    @contextmanager
    def refusing(self, node: ast.Try) -> Iterator[None]:
        """The body of a ``try`` that must not reach its end."""
        fails = must_raise(node)
        self.failing += fails
        try:
            yield
        finally:
            self.failing -= fails

    def passed(self, instance: Any) -> None:
        """A kernel is handed to what is expected to raise."""
        instance.failures += 1

    def saw(self, instance: Any, compiled: bool, target: Any = None) -> None:
        """A kernel is made at an instance; ``compiled``: all the way, so that its faults show."""
        compiled = compiled and not self.tracing
        if self.failing:
            instance.failures += 1
        elif compiled:
            instance.successes += 1
        named = target_text(target) or (self.targets[-1] if self.targets else None)
        if (compiled or named is not None) and named not in instance.targets:
            instance.targets.append(named)

    def only_traced(self, instance: Any) -> None:
        """What is lowered by hand was not compiled before: it came from ``get_tir``, or ``tilelang.jit`` was applied to its factory elsewhere."""
        if None in instance.targets:
            instance.targets.remove(None)
            instance.successes -= 1


def expects_failure(node: ast.expr) -> bool:
    """``pytest.raises(...)``, ``self.assertRaises(...)``."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
    return name in _RAISES


def must_raise(node: ast.Try) -> bool:
    """``try: ...; raise AssertionError(...)``: what stands before is expected to raise."""
    last = node.body[-1]
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and isinstance(last.value.func, ast.Attribute):
        return last.value.func.attr == "fail" and bool(node.handlers)
    fails = isinstance(last, ast.Raise) or isinstance(last, ast.Assert) and isinstance(last.test, ast.Constant) and not last.test.value
    return fails and len(node.body) > 1 and bool(node.handlers)


def mark_refused(text: str, definitions: list[Any]) -> None:
    """Kernels whose prim_func is written where an exception is expected."""
    from .tile.jit import _is_prim_func

    if not any(word in text for word in (*_RAISES, "raise AssertionError", "assert False", ".fail(")):
        return
    for definition in definitions:
        if definition.kind != "lazy":
            continue
        inside = [f for block in statements_within(definition.node) if _refuses(block) for f in (block, *statements_within(block)) if isinstance(f, ast.FunctionDef)]
        written = [s for s in statements_within(definition.node) if isinstance(s, ast.FunctionDef) and any(map(_is_prim_func, s.decorator_list))]
        if inside and all(f in inside for f in written):
            for instance in definition.instances:
                instance.failures, instance.successes = instance.failures + 1, 0


def _refuses(node: ast.AST) -> bool:
    if isinstance(node, ast.With):
        return any(expects_failure(i.context_expr) for i in node.items)
    return isinstance(node, ast.Try) and must_raise(node)


def target_text(value: Any) -> str | None:
    """A target in words (``hip``, ``sm_90a``, ``cuda -arch=sm_90a``); None for the machine's own and what is not known."""
    if isinstance(value, HostTarget):
        return target_text(value.spec)
    if isinstance(value, dict):
        value = value.get("arch") if value.get("kind") == "cuda" and "arch" in value else value.get("kind")
    return value if isinstance(value, str) and value != "auto" else None


def required_kind(decorator: str) -> str | None:
    """The kind of target that a test under this decorator is for, if not CUDA."""
    return "hip" if decorator.startswith("requires_gfx") else _REQUIRED_KINDS.get(decorator)
