"""The patterns of match statements."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import Evaluator
from .expressions import evaluate, truth
from .scope import Scope
from .values import is_device, is_unknown

_SUBJECT = "<subject>"  # no name of a program


def matches(ev: Evaluator, pattern: ast.pattern, subject: Any, scope: Scope) -> bool | None:
    """Whether a value has a pattern, whose names are then bound; None where that is not known."""
    if isinstance(pattern, ast.MatchAs):
        found = True if pattern.pattern is None else matches(ev, pattern.pattern, subject, scope)
        if pattern.name is not None and found is not False:
            scope.names[pattern.name] = subject
        return found
    if is_unknown(subject) or is_device(subject):
        return None
    if isinstance(pattern, ast.MatchValue):
        return _compared(ev, subject, ast.Eq(), pattern.value, scope)
    if isinstance(pattern, ast.MatchSingleton):
        return _compared(ev, subject, ast.Is(), ast.copy_location(ast.Constant(pattern.value), pattern), scope)
    if isinstance(pattern, ast.MatchOr):
        return _any(matches(ev, p, subject, scope) for p in pattern.patterns)
    if isinstance(pattern, ast.MatchSequence) and isinstance(subject, (type(None), tuple, list, str, int, float)):
        return isinstance(subject, (tuple, list)) and _sequence(ev, pattern.patterns, subject, scope)
    if isinstance(pattern, ast.MatchClass) and isinstance(pattern.cls, ast.Name) and pattern.cls.id in _KINDS and not pattern.kwd_attrs:
        if subject is not None and not isinstance(subject, tuple(_KINDS.values())):
            return None
        inner = [matches(ev, p, subject, scope) for p in pattern.patterns]  # int(x) names the value itself
        return isinstance(subject, _KINDS[pattern.cls.id]) and (inner[0] if inner else True)
    return None


_KINDS: dict[str, type] = {k.__name__: k for k in (int, float, str, bool, tuple, list)}


def _sequence(ev: Evaluator, patterns: list[ast.pattern], subject: Any, scope: Scope) -> bool | None:
    star = next((k for k, p in enumerate(patterns) if isinstance(p, ast.MatchStar)), None)
    if star is None:
        return len(patterns) == len(subject) and _all(ev, patterns, subject, scope)
    after = len(patterns) - star - 1
    if len(subject) < star + after:
        return False
    last = len(subject) - after
    name = patterns[star].name  # type: ignore[attr-defined]
    if name is not None:
        scope.names[name] = list(subject[star:last])
    return _all(ev, patterns[:star] + patterns[star + 1:], [*subject[:star], *subject[last:]], scope)


def _all(ev: Evaluator, patterns: list[ast.pattern], values: Any, scope: Scope) -> bool | None:
    found = [matches(ev, p, v, scope) for p, v in zip(patterns, values)]
    return False if False in found else None if None in found else True


def _any(found: Any) -> bool | None:
    """The first that is not False decides."""
    return next((f for f in found if f is not False), False)


def _compared(ev: Evaluator, subject: Any, how: ast.cmpop, value: ast.expr, scope: Scope) -> bool | None:
    """As the comparison that it is."""
    plain, other = (type(None), *_KINDS.values()), evaluate(ev, value, scope)
    if isinstance(subject, plain) and isinstance(other, plain):
        return subject is other if isinstance(how, ast.Is) else subject == other
    name = ast.copy_location(ast.Name(_SUBJECT, ast.Load()), value)
    scope.names[_SUBJECT] = subject
    try:
        return truth(ev, evaluate(ev, ast.copy_location(ast.Compare(name, [how], [value]), value), scope))
    finally:
        scope.names.pop(_SUBJECT, None)
