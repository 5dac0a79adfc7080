"""From tile programs and API uses to diagnostics: rules run, faults of several instances and targets become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..evaluate.problem import Problem
from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..source.span import Span
from ..target.chips import TARGETS, Target
from . import torn
from .api import Api
from .argument_kinds import check_kinds
from .context import RuleContext
from .diagnostic import ERROR, Diagnostic, Related
from .facts import Facts
from .merge import merge_instances, merge_targets
from .own_targets import elsewhere, own_targets
from .pass_configs import check_pass_configs
from .registry import BY_NAME, program_rules
from .settings import OFF, Settings
from .suppress import ignores, misspelt, suppressed, unused
from .untaken import used_elsewhere

# Faults that say a kernel was not written for a chip. Where the user names no target, they rule the chip out instead.
TARGET_SUPPORT = frozenset(
    (
        "tmem-target",
        "op-target",
        "cluster-target",
        "barrier-target",
        "gemm-dtype-target",
        "atomic-tma-target",
        "smem-capacity",
        "smem-static",
    )
)
# Faults of the language itself, on GPUs of other makers and on the CPU as well.
EVERYWHERE = frozenset(
    (
        "alloc-shape",
        "copy-extents",
        "copy-rank",
        "gemm-shape",
        "grid-zero",
        "index-out-of-bounds",
        "slice-out-of-bounds",
        "transpose-shape",
        "unbound-symbol",
        "uninitialised-accumulator",
        "uninitialised-read",
        "unused-buffer",
    )
)
# What the evaluator finds that holds for CUDA only.
CUDA_PROBLEMS = frozenset(("annotation-value",))


def check_program(
    program: TileProgram,
    target: Target | Sequence[Target],
    api: Api | None = None,
    settings: Settings | None = None,
    explicit: bool = True,
) -> list[Diagnostic]:
    """The diagnostics of one tile program.

    ``explicit`` False: the targets are candidates, not the user's choice; what fails on some of them only is not told.
    """
    settings = settings or Settings()
    if program.attrs.get("expects_failure"):
        return []
    targets = (target,) if isinstance(target, Target) else tuple(target)
    candidates = targets
    if not explicit:
        targets = own_targets(program, targets)
    problems = problem_diagnostics(program.attrs.get("problems", ()), settings, program)
    if api is not None:
        problems = [p for p in problems if p.name != "deprecated-api" or _has_successors(p, api)]
        problems += _elsewhere(check_kinds(program.attrs.get("api_calls", ()), api, settings, program), problems)
    if not any(t.kind in ("cuda", "cpu") for t in targets):
        problems = [p for p in problems if p.name not in CUDA_PROBLEMS]
    facts = Facts.of(program)
    version = api.version if api is not None else ""
    blamed: dict[Buffer, str] = {}
    on_gpu = any(t.kind == "cuda" for t in targets) and not any(
        s.attrs.get("is_cpu") is True for s in program.launches()
    )
    released = getattr(api, "source", "shipped") == "shipped"
    common = _run(RuleContext(program, facts, None, settings, blamed, version, released), problems)
    if not on_gpu:
        common = [d for d in common if d.name in EVERYWHERE]

    def on(t: Target) -> tuple[Target, list[Diagnostic]]:
        return t, _run(RuleContext(program, facts, t, settings, dict(blamed), version, released), [*problems, *common])

    by_target = [on(t) for t in targets]
    if not explicit and on_gpu and targets == candidates and not any(_runs(ds) for _, ds in by_target):
        # a kernel for a chip that is no candidate (sm_120)
        rest = [on(t) for t in TARGETS.values() if t.kind == "cuda" and t not in targets]
        by_target = [(t, ds) for t, ds in rest if _runs(ds)] or by_target
    return _ordered(_without_echoes([*problems, *common, *merge_targets(by_target, explicit, TARGET_SUPPORT)]))


def _has_successors(d: Diagnostic, api: Api) -> bool:
    """Whether the release has what a deprecated name gives way to."""
    import re

    return all(api.has(name) for name in re.findall(r"\bT\.(\w+)", d.message))


def _runs(found: Iterable[Diagnostic]) -> bool:
    """Whether the chip has what the kernel needs."""
    return not any(d.name in TARGET_SUPPORT and d.severity == ERROR for d in found)


def _without_echoes(found: list[Diagnostic]) -> list[Diagnostic]:
    """Hints and warnings about what an error is about as well."""
    errors = [d.span for d in found if d.severity == ERROR]
    return [d for d in found if d.severity == ERROR or not any(_same_place(d.span, e) for e in errors)]


def _elsewhere(found: Iterable[Diagnostic], known: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Those of which nothing is known to be wrong at their place yet."""
    return [d for d in found if not any(_same_place(d.span, k.span) and k.severity == ERROR for k in known)]


def _run(ctx: RuleContext, before: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Run the rules in order. A place at which an error was reported is not reported again."""
    taken = [d for d in before if d.severity == ERROR]
    found: list[Diagnostic] = []
    for rule in program_rules():
        if rule.per_target != (ctx.target is not None):
            continue
        ctx.rule = rule
        told = [d for d in rule.function(ctx) if d is not None]
        if not told:
            continue
        mine = _distinct([d for d in told if not any(_same_place(d.span, t.span) for t in taken)])
        found += mine
        taken += [d for d in mine if d.severity == ERROR]
    return found


def _distinct(found: list[Diagnostic]) -> list[Diagnostic]:
    seen: dict[tuple[str, Any], Diagnostic] = {}
    for d in found:
        seen.setdefault((d.code, d.span), d)
    return list(seen.values())


def _same_place(a: Span, b: Span) -> bool:
    """Whether two spans are about one statement: they overlap and neither is a whole block."""
    if a.path != b.path or a.line > b.end_line or b.line > a.end_line:
        return False
    if max(a.end_line - a.line, b.end_line - b.line) > 12:
        return False
    return (a.line, a.column) < (b.end_line, b.end_column) and (b.line, b.column) < (a.end_line, a.end_column)


def problem_diagnostics(
    problems: Iterable[Problem], settings: Settings, program: TileProgram | None = None
) -> list[Diagnostic]:
    """What the evaluator found, with codes."""
    found = []
    for problem in problems:
        rule = BY_NAME.get(problem.rule)
        if rule is None or not settings.wants(rule):
            continue
        severity = settings.severity(rule, rule.severity)
        if severity != OFF:
            found.append(
                Diagnostic(
                    rule.code,
                    rule.name,
                    severity,
                    problem.message,
                    problem.span,
                    tuple(Related(m, s) for m, s in problem.related),
                    None,
                    program.name if program else "",
                    program.instance if program else "",
                )
            )
    return _without_causes(found)


# A division of integers is told as what becomes of it, where that is a fault of its own.
_CONSEQUENCES = frozenset(("index-float", "grid-float", "loop-extent-float", "alloc-shape"))


def _without_causes(found: list[Diagnostic]) -> list[Diagnostic]:
    told = [d.span for d in found if d.name in _CONSEQUENCES]
    return [d for d in found if d.name != "operand-dtype" or not any(_same_place(d.span, t) for t in told)] if told else found


def check_analysis(
    analysis: Any,
    targets: Sequence[Target],
    api: Api,
    settings: Settings | None = None,
    explicit: bool = True,
    programs: Any = None,
    lowest: Api | None = None,
    assumed: bool = False,
) -> list[Diagnostic]:
    """The diagnostics of a file: its syntax, its API uses, its kernels at all their instances.

    ``programs``: ``(kernel, instance) -> TileProgram`` for callers that keep programs; by default they are made here.
    ``lowest``: the oldest release that the project promises to work with, where it is another than ``api``.
    ``assumed``: ask for the programs of assumed instances too, which are not checked (for counting what is analysed).
    """
    from ..evaluate import instantiate
    from .api_rules import check_api

    settings = settings or Settings()
    make = programs or (lambda kernel, instance: instantiate(analysis, kernel, instance))
    found = [
        *syntax_diagnostics(analysis.source, settings),
        *(d for d in check_api(analysis.api_uses, api, settings) if not _in_refused_kernel(d, analysis)),
        *torn.outside_torn(problem_diagnostics(analysis.problems, settings), analysis.source),
    ]
    found += _elsewhere(check_kinds(analysis.api_calls, api, settings), found)
    found += check_pass_configs(analysis.api_calls, api, settings)
    if lowest is not None:
        found += above_lowest(analysis.api_uses, lowest, settings, found)
    general = list(found)
    judge_ignores = settings.unused_ignores and bool(ignores(analysis.source))
    known: list[Any] = []  # kernels of which everything is known: elsewhere a comment may silence what is not seen here
    for kernel in torn.whole_kernels(analysis):
        by_instance = []
        complete = judge_ignores
        for instance in kernel.instances:
            if instance.is_assumed() and not assumed:
                continue
            program = make(kernel, instance)
            if program is None or instance.is_assumed():
                continue
            complete = complete and _is_complete(program)
            # kept programs may be older than what the code around the kernel says about it
            program.attrs.update(origin=instance.origin, targets=tuple(instance.targets))
            if instance.expects_failure:
                continue
            if instance.function.kind == "plain":  # a function that is no factory may keep its prim_func to itself
                program.attrs["problems"] = [p for p in program.attrs.get("problems", ()) if p.rule != "missing-return"]
            diagnostics = check_program(program, elsewhere(program) or targets, api, settings, explicit)
            by_instance.append((instance, [replace(d, kernel=kernel.qualname) for d in diagnostics]))
        if complete and by_instance:
            known.append(kernel)
        merged = merge_instances(kernel, by_instance)
        merged = torn.without_follow_ons(merged, analysis.source)
        merged = [d for d in merged if not used_elsewhere(d, kernel, analysis.source)]
        found += [d for d in merged if not any(_same_place(d.span, g.span) and g.severity == ERROR for g in general)]
    found = _distinct_places(found)
    idle = unused(found, analysis.source, settings) if judge_ignores else []
    if len(known) < len(analysis.kernels):
        idle = [d for d in idle if any(k.first_line <= d.span.line <= k.span.end_line for k in known)]
    strange = misspelt(analysis.source, settings) if settings.unused_ignores else []
    return _ordered([*suppressed(found, analysis.source), *idle, *strange])


def _in_refused_kernel(d: Diagnostic, analysis: Any) -> bool:
    """Whether a place lies in a kernel that tests make only to see it refused."""
    return any(
        k.first_line <= d.span.line <= k.span.end_line and k.instances and all(i.expects_failure for i in k.instances)
        for k in analysis.kernels
    )


def _is_complete(program: TileProgram) -> bool:
    from ..evaluate.coverage import gap

    return gap(program) is None


def above_lowest(uses: Iterable[Any], lowest: Api, settings: Settings, before: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What the oldest release that the project allows lacks, and the one it is checked against has."""
    from .api_rules import check_api

    rule = BY_NAME["above-lowest-version"]
    severity = settings.severity(rule, rule.severity)
    if severity == OFF or not settings.wants(rule):
        return []
    taken = {d.span for d in before}
    found = (d for d in check_api(uses, lowest, Settings()) if d.name == "newer-api" and d.span not in taken)
    told = f"; the project allows tilelang {lowest.version}"
    return [Diagnostic(rule.code, rule.name, severity, d.message.split("; use ")[0] + told, d.span) for d in found]


def syntax_diagnostics(source: Any, settings: Settings) -> list[Diagnostic]:
    rule = BY_NAME["syntax-error"]
    if not settings.wants(rule) or "tilelang" not in source.text:
        return []  # Python of other kinds is for other tools, and may be newer than the one that runs this
    return [Diagnostic(rule.code, rule.name, rule.severity, message, span) for message, span in source.syntax_errors]


def _distinct_places(found: list[Diagnostic]) -> list[Diagnostic]:
    """One fault in a helper used by several kernels is reported once."""
    seen: dict[tuple[str, int, int, int, int], Diagnostic] = {}
    for d in found:
        seen.setdefault((d.code, d.span.line, d.span.column, d.span.end_line, d.span.end_column), d)
    return list(seen.values())


def _ordered(found: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(found, key=lambda d: (d.span.path, d.span.line, d.span.column, d.code))
