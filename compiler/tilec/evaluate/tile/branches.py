"""``if`` on the device."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import VAR, Buffer, Region
from ...ir.build import select
from ...ir.expr import Expr, is_host_choice
from ...ir.stmt import Body, If
from ..evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from ..scope import Scope
from ..values import is_unknown, same, unknown


def is_tile_condition(ev: Evaluator, cond: Any, node: ast.expr) -> bool:
    """Whether a condition is a buffer, and says so."""
    if not isinstance(cond, (Buffer, Region)) or (isinstance(cond, Buffer) and cond.scope == VAR):
        return False
    name = cond.name if isinstance(cond, Buffer) else cond.buffer.name
    ev.problem("buffer-as-condition", f"{name} is a buffer, not a value; a condition needs one element, such as {name}[0]", node)
    return True


def device_if(ev: Evaluator, node: ast.If, cond: Any, scope: Scope) -> None:
    if is_tile_condition(ev, cond, node.test):
        return
    if not isinstance(cond, Expr) or is_unknown(cond):
        maybe(ev, node, scope)
        return
    if is_host_choice(cond):
        maybe(ev, node, scope, cond)
        return
    span = ev.span(node)
    then = trace_branch(ev, node.body, scope, "if")
    other = trace_branch(ev, node.orelse, scope, "if") if node.orelse else ()
    assert ev.builder is not None
    ev.builder.emit(If(span, cond, then, other))


def trace_branch(ev: Evaluator, body: list[ast.stmt], scope: Scope, kind: str) -> Body:
    builder = ev.builder
    assert builder is not None
    builder.push()
    builder.enter(kind)
    try:
        ev.run(body, scope)
    finally:
        builder.leave()
        result = builder.pop()
    return result


def maybe(ev: Evaluator, node: ast.If, scope: Scope, cond: Expr | None = None) -> None:
    """The condition is not known, perhaps not even a device value: both sides are traced under an unknown condition.

    ``cond``: the condition where it is one on host sizes.
    """
    builder = ev.builder
    assert builder is not None
    before = dict(scope.names)
    bodies: list[Body] = []
    ends: list[dict[str, Any]] = []
    reporting, ev.reporting = ev.reporting, False  # what stands under an unknown condition may never run
    try:
        for body in (node.body, node.orelse):
            scope.names = dict(before)
            depth, frames = len(builder.bodies), len(builder.frames)
            try:
                bodies.append(trace_branch(ev, body, scope, "maybe"))
                ends.append(scope.names)
            except (ReturnSignal, Raised, BreakSignal, ContinueSignal):
                del builder.bodies[depth:], builder.frames[frames:]
                bodies.append(())
    finally:
        ev.reporting = reporting
    scope.names = _join(before, ends, cond)
    builder.emit(If(ev.span(node), unknown("condition") if cond is None else cond, bodies[0], bodies[1]))


def _join(before: dict[str, Any], ends: list[dict[str, Any]], cond: Expr | None) -> dict[str, Any]:
    if not ends:
        return dict(before)
    joined = dict(ends[0])
    for end in ends[1:]:
        for name, value in end.items():
            if name not in joined:
                joined[name] = value
            elif not same(joined[name], value):
                joined[name] = _either(name, joined[name], value, cond)
    return joined


def _either(name: str, then: Any, other: Any, cond: Expr | None) -> Any:
    if cond is not None and all(isinstance(v, (int, float, Expr)) and not is_unknown(v) for v in (then, other)):
        return select(cond, then, other)
    return unknown(f"{name} depends on a condition")
