"""Python numbers that device branches and loops bind anew. A name holds a number while the kernel is built, once, whatever the device
does later (tilelang/language/eager/builder.py, 0.1.15: ``bind_immutable`` returns what is no expression): under a device condition
the number is taken always, and in a device loop it changes once. TileLang refuses the same with expressions and is silent here."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.expr import Const, Expr
from ...source.nodes import walk
from ..evaluator import Evaluator
from ..scope import Scope
from ..values import Expired, is_unknown
from .builder import Frame

LOOPS = ("for", "parallel", "while")
WAY_OUT = "; T.alloc_var makes a variable"


def constant(value: Any) -> Any:
    """The number that a value is, or None."""
    if isinstance(value, Const):
        value = value.value
    return value if isinstance(value, (int, float)) else None


def note(ev: Evaluator, target: ast.Name, old: Any, value: Any, scope: Scope) -> None:
    """``target`` is given a number in a kernel: remember it where a device branch ends with another number than it began with."""
    builder = ev.builder
    assert builder is not None
    crossed = _crossed(ev, scope, target.id)
    branch = next((f for f in crossed if f.kind == "if"), None)
    if branch is None:
        builder.constants[scope, target.id] = builder.frames[-1] if builder.frames else None
        return
    before = constant(old)
    changed = not is_unknown(old) if isinstance(old, Expr) and before is None else before is not None and before != constant(value)
    if changed or (isinstance(old, Expired) and old.constant):
        branch.constants.append((scope, target.id, ev.span(target), old))
    elif before is None:
        builder.constants[scope, target.id] = builder.frames[-1]


def check_step(ev: Evaluator, node: ast.Assign | ast.AugAssign, value: Any, scope: Scope) -> None:
    """``n += 1`` and ``n = n + 1`` in a device loop that begins after ``n`` was bound: done once, not once an iteration."""
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
    if not isinstance(target, ast.Name):
        return
    old = constant(scope.names.get(target.id))
    if old is None or old == constant(value) or not any(f.kind in LOOPS for f in _crossed(ev, scope, target.id)):
        return
    if isinstance(node, ast.Assign) and not any(isinstance(n, ast.Name) and n.id == target.id for n in walk(node.value)):
        return
    ev.problem("constant-rebound", f"{target.id} is a number of Python's, which loops of the kernel do not change again and again: this happens once, "
               f"while the kernel is built, and {target.id} is {constant(value)} from here on{WAY_OUT} that a loop can change", node)


def _crossed(ev: Evaluator, scope: Scope, name: str) -> list[Frame]:
    """The open frames, innermost first, that were entered after ``name`` was bound."""
    builder = ev.builder
    assert builder is not None
    bound = builder.constants.get((scope, name))
    frames: list[Frame] = []
    for frame in reversed(builder.frames):
        if frame is bound or any(n == name and s is scope for s, n, _ in frame.names) or frame.kind in ("macro", "launch"):
            break
        if frame.kind in ("maybe", "lazy"):
            return []
        frames.append(frame)
    return frames


def told(ev: Evaluator, node: ast.Name, value: Expired) -> None:
    """``node`` reads a number that a branch which has ended bound anew."""
    assert value.span is not None
    ev.problem("constant-rebound", f"{value.name} is a number of Python's: it is bound here while the kernel is built, whatever the condition says "
               f"on the device{WAY_OUT} that a branch can change", value.span, ("read here", ev.span(node)))
