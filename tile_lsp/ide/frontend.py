"""The calls into tilec's front end and checker, in one place."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilec.ir.program import TileProgram
from tilec.source.file import SourceFile

from .environment import Environment
from .preferences import Preferences


def analyse(source: SourceFile, preferences: Preferences, cancelled: Callable[[], bool]) -> Any:
    from tilec import evaluate

    return evaluate.analyse(source, instances=preferences.instances)


def instantiate(analysis: Any, kernel: Any, instance: Any, trail: Any = None) -> TileProgram | None:
    from tilec import evaluate

    return evaluate.instantiate(analysis, kernel, instance, trail)


def check(analysis: Any, environment: Environment, preferences: Preferences, programs: Any) -> list[Any]:
    """The checker's verdict. A Python file without any trace of TileLang is none of our business, not even its syntax."""
    from tilec.check.checker import check_analysis
    from tilec.check.settings import Settings
    from tilec.target import chips

    if analysis.scope is None:
        return []
    settings = Settings(frozenset(preferences.select), frozenset(preferences.ignore), dict(preferences.severities))
    targets = [chips.find(t) for t in environment.targets]
    found = check_analysis(analysis, targets, environment.api, settings, explicit=bool(preferences.target), programs=programs)
    torn = _torn_kernels(analysis)
    return [d for d in found if d.kernel not in torn]


def _torn_kernels(analysis: Any) -> set[str]:
    """Kernels with a statement that does not parse: what they lack may stand in that statement, so nothing is said about them."""
    broken = [span.line for _, span in analysis.source.syntax_errors]
    return {k.qualname for k in analysis.kernels if any(k.first_line <= line <= k.span.end_line for line in broken)}


def arguments(kernel: Any, instance: Any) -> dict[str, Any]:
    from tilec.evaluate.functions import bind_arguments

    values, _ = bind_arguments(instance.function, instance.args, instance.kwargs)
    return dict(values or {})
