"""Comprehensions and generator expressions, over sequences that are known."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import Evaluator
from .expressions import MAX_LENGTH, evaluate, truth
from .scope import Scope
from .values import is_device, unknown


class _NotKnown(Exception):
    pass


def evaluate_comprehension(ev: Evaluator, node: Any, scope: Scope) -> Any:
    inner = Scope(scope, "comprehension")
    found: list[Any] = []
    try:
        _generate(ev, node, node.generators, inner, found)
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


def _generate(ev: Evaluator, node: Any, generators: list[ast.comprehension], scope: Scope, found: list[Any]) -> None:
    if not generators:
        if isinstance(node, ast.DictComp):
            found.append((evaluate(ev, node.key, scope), evaluate(ev, node.value, scope)))
        else:
            found.append(evaluate(ev, node.elt, scope))
        if len(found) > MAX_LENGTH:
            raise _NotKnown
        return
    from .statements import assign_target
    from .tile.loops import iterate_host

    first = generators[0]
    items = iterate_host(ev, evaluate(ev, first.iter, scope), first.iter)
    if items is None:
        raise _NotKnown
    for item in items:
        assign_target(ev, first.target, item, scope, bind=False)
        if all(_holds(ev, test, scope) for test in first.ifs):
            _generate(ev, node, generators[1:], scope, found)


def _holds(ev: Evaluator, test: ast.expr, scope: Scope) -> bool:
    value = evaluate(ev, test, scope)
    known = truth(ev, value)
    if known is None:
        if is_device(value):
            ev.problem("python-iterate-device", "the filter of a comprehension depends on a device value, which is not known "
                       "while the kernel is built", test)
        raise _NotKnown
    return known
