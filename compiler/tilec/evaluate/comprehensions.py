"""Comprehensions and generator expressions, over sequences that are known."""
from __future__ import annotations

import ast
from typing import Any

from ..ir.expr import Unknown
from ..source.nodes import walk
from .evaluator import Evaluator
from .expressions import MAX_LENGTH, evaluate, truth
from .scope import Scope
from .values import HostTensor, is_device, unknown

_VALUES = (int, float, str, bool, HostTensor, Unknown)  # never changed in place, so that one may stand for many

MAX_STEPS = 100_000  # of one comprehension


class _NotKnown(Exception):
    pass


def evaluate_comprehension(ev: Evaluator, node: Any, scope: Scope) -> Any:
    inner = Scope(scope, "comprehension")
    found: list[Any] = []
    try:
        _generate(ev, node, node.generators, inner, found, ev.steps_left - MAX_STEPS)
    except _NotKnown:
        return unknown("comprehension")
    if isinstance(node, ast.DictComp):
        try:
            return dict(found)
        except TypeError:
            return unknown("comprehension")
    if isinstance(node, ast.SetComp):
        try:
            return set(found)
        except TypeError:
            return unknown("comprehension")
    return found


def _generate(ev: Evaluator, node: Any, generators: list[ast.comprehension], scope: Scope, found: list[Any], least: int) -> None:
    """``least``: with fewer steps left, filters have left out so much that the rest is for something else than a kernel."""
    if not generators:
        if isinstance(node, ast.DictComp):
            found.append((evaluate(ev, node.key, scope), evaluate(ev, node.value, scope)))
        else:
            found.append(evaluate(ev, node.elt, scope))
        if len(found) > MAX_LENGTH:
            raise _NotKnown
        return
    first = generators[0]
    items = loops.iterate_host(ev, evaluate(ev, first.iter, scope), first.iter)
    if items is None:
        raise _NotKnown
    if _repeats(ev, node, generators, items):
        statements.assign_target(ev, first.target, items[0], scope, bind=False)
        value = evaluate(ev, node.elt, scope)
        if isinstance(value, _VALUES):
            found += [value] * min(len(items), MAX_LENGTH - len(found) + 1)
            if len(found) > MAX_LENGTH:
                raise _NotKnown
            return
    for item in items:
        statements.assign_target(ev, first.target, item, scope, bind=False)
        if ev.steps_left < least:
            raise _NotKnown
        if all(_holds(ev, test, scope) for test in first.ifs):
            _generate(ev, node, generators[1:], scope, found, least)


def _repeats(ev: Evaluator, node: Any, generators: list[ast.comprehension], items: Any) -> bool:
    """Whether every item gives the same: ``[torch.randperm(n) for _ in range(1024)]``."""
    if ev.builder is not None or len(items) < 3 or len(generators) > 1 or generators[0].ifs or isinstance(node, ast.DictComp):
        return False
    targets = {n.id for n in walk(generators[0].target) if isinstance(n, ast.Name)}
    return not any(isinstance(n, ast.NamedExpr) or (isinstance(n, ast.Name) and n.id in targets) for n in walk(node.elt))


def _holds(ev: Evaluator, test: ast.expr, scope: Scope) -> bool:
    value = evaluate(ev, test, scope)
    known = truth(ev, value)
    if known is None:
        if is_device(value):
            ev.problem("python-iterate-device", "the filter of a comprehension depends on a device value, which is not known "
                       "while the kernel is built", test)
        raise _NotKnown
    return known

from . import statements  # noqa: E402  (they need the names above)
from .tile import loops  # noqa: E402  (they need the names above)
