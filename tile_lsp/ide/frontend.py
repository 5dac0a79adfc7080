"""The calls into tilec's front end and checker, in one place."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilec.check.torn import without_follow_ons
from tilec.ir.program import TileProgram
from tilec.source.file import SourceFile

from .environment import Environment
from .incremental import DiagnosticCache
from .preferences import Preferences


def load() -> None:
    """Load the modules that the first check needs."""
    import tilec.check.checker
    import tilec.check.settings
    import tilec.evaluate  # noqa: F401
    from tilec.check.registry import program_rules

    program_rules()


def analyse(source: SourceFile, preferences: Preferences, cancelled: Callable[[], bool]) -> Any:
    from tilec import evaluate

    return evaluate.analyse(source, instances=preferences.instances, config_instances=preferences.config_instances)


def instantiate(analysis: Any, kernel: Any, instance: Any, trail: Any = None) -> TileProgram | None:
    from tilec import evaluate

    return evaluate.instantiate(analysis, kernel, instance, trail)


def check(analysis: Any, environment: Environment, preferences: Preferences, programs: Any, cache: DiagnosticCache,
          dependencies: dict[str, Any]) -> list[Any]:
    """The checker's verdict. A Python file without any trace of TileLang is none of our business, not even its syntax."""
    from tilec.check.checker import check_analysis
    from tilec.check.settings import Settings
    from tilec.target import chips

    if analysis.scope is None or preferences.excluded:
        return []
    settings = Settings(frozenset(preferences.select), frozenset(preferences.ignore), dict(preferences.severities),
                        extend=frozenset(preferences.extend_select))
    targets = [chips.find(t) for t in environment.targets]
    taken = {name: _taken(cache, analysis.source, key, used) for name, (key, used) in dependencies.items()}
    fresh = [k for k in analysis.kernels if taken.get(k.qualname) is None]
    found = check_analysis(replace(analysis, kernels=fresh), targets, environment.api, settings, programs=programs,
                           explicit=bool(preferences.target or preferences.targets), lowest=environment.lowest)
    for kernel in fresh:
        if kernel.qualname in dependencies:
            key, used = dependencies[kernel.qualname]
            cache.keep((key, bool(analysis.source.syntax_errors)), used, analysis.source.path, [d for d in found if d.kernel == kernel.qualname])
    return _joined(found, [d for kept in taken.values() if kept for d in kept])


def _taken(cache: DiagnosticCache, source: SourceFile, key: Any, used: Any) -> list[Any] | None:
    """Remembered diagnostics. Those of a text without syntax errors serve for one with errors elsewhere, less what follows from these."""
    found = cache.take((key, bool(source.syntax_errors)), used)
    if found is None and source.syntax_errors:
        whole = cache.take((key, False), used)
        found = without_follow_ons(whole, source) if whole is not None else None
    return found


def _joined(found: list[Any], kept: list[Any]) -> list[Any]:
    """One list in order; a fault at one place, reached by several kernels, once."""
    seen: dict[Any, Any] = {}
    for d in (*found, *kept):
        seen.setdefault((d.code, d.span.path, d.span.line, d.span.column, d.span.end_line, d.span.end_column), d)
    return sorted(seen.values(), key=lambda d: (d.span.path, d.span.line, d.span.column, d.code))


def arguments(kernel: Any, instance: Any) -> dict[str, Any]:
    from tilec.evaluate.functions import bind_arguments

    values, _ = bind_arguments(instance.function, instance.args, instance.kwargs)
    return dict(values or {})
