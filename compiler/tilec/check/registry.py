"""The rules: their data from the table, their functions by decorator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .diagnostic import ERROR, INFORMATION, WARNING
from .table import RULES

if TYPE_CHECKING:
    from .context import RuleContext
    from .diagnostic import Diagnostic

_SEVERITY = {"E": ERROR, "W": WARNING, "I": INFORMATION}
PAGES = Path(__file__).with_name("pages")


@dataclass(frozen=True, slots=True)
class Rule:
    code: str
    name: str
    family: str
    severity: str
    summary: str

    def page(self) -> str | None:
        """The rule's page in Markdown, if it has one."""
        path = PAGES / f"{self.name}.md"
        return path.read_text(encoding="utf-8") if path.is_file() else None


BY_NAME: dict[str, Rule] = {
    name: Rule(code, name, family, _SEVERITY[s], summary) for code, name, family, s, summary in RULES
}
BY_CODE: dict[str, Rule] = {r.code: r for r in BY_NAME.values()}


def find(text: str) -> Rule | None:
    """A rule by its code or name."""
    return BY_NAME.get(text.strip().lower()) or BY_CODE.get(text.strip().upper())


Check = Callable[["RuleContext"], "Iterable[Diagnostic | None]"]


@dataclass(frozen=True, slots=True)
class ProgramRule:
    """A function over one tile program. Rules run in the order of their ranks; what one reports at a place, later
    ones do not report again. ``per_target``: the verdict depends on the chip."""

    names: tuple[str, ...]
    function: Check
    per_target: bool
    rank: int


_PROGRAM_RULES: list[ProgramRule] = []


def rule(*names: str, per_target: bool = False) -> Callable[[Check], Check]:
    """Declare a program rule that reports under ``names`` (the first is what ``ctx.report`` defaults to)."""
    for name in names:
        if name not in BY_NAME:
            raise ValueError(f"no rule is called {name!r}")

    def register(function: Check) -> Check:
        _PROGRAM_RULES.append(ProgramRule(names, function, per_target, len(_PROGRAM_RULES)))
        return function

    return register


# One file a rule family, in the order in which they have precedence.
FAMILIES = (
    "launch",
    "symbols",
    "buffers",
    "alignment",
    "values",
    "gemm",
    "wgmma",
    "tmem",
    "tmem_columns",
    "copies",
    "reductions",
    "scans",
    "reducers",
    "sparse",
    "blockscaled",
    "random",
    "clusters",
    "atomics",
    "barriers",
    "branches",
    "arrivals",
    "phases",
    "handover",
    "bulk",
    "waits",
    "pipelines",
    "parallel",
    "races",
    "layouts_given",
    "layouts",
    "capacity",
    "usage",
    "performance",
    "performance_blocks",
    "known_defects",
)


@lru_cache(maxsize=1)
def program_rules() -> tuple[ProgramRule, ...]:
    for family in FAMILIES:
        importlib.import_module(f"{__package__}.rules.{family}")
    return tuple(_PROGRAM_RULES)


def describe(name: str) -> dict[str, Any]:
    r = BY_NAME[name]
    return {"code": r.code, "name": r.name, "family": r.family, "severity": r.severity, "summary": r.summary}
