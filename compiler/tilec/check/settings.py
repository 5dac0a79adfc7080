"""Which rules report, and how loudly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .diagnostic import INFORMATION, SEVERITIES
from .registry import BY_NAME, Rule

OFF = "off"


@dataclass(frozen=True)
class Settings:
    """``select`` / ``ignore``: codes, prefixes of codes (``TL5``), names or families; ``select`` empty means all.

    ``severities``: rule name or code -> error | warning | information | off.
    """

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    severities: Mapping[str, str] = field(default_factory=dict)

    def severity(self, rule: Rule, default: str) -> str:
        for key in (rule.name, rule.code):
            if key in self.severities and default != INFORMATION:
                return self.severities[key]
            if self.severities.get(key) == OFF:
                return OFF
        return default

    def wants(self, rule: Rule) -> bool:
        if self.select and not any(selects(s, rule) for s in self.select):
            return False
        return not any(selects(s, rule) for s in self.ignore)


def selects(selector: str, rule: Rule) -> bool:
    return selector in (rule.name, rule.family, "all", "ALL") or rule.code.startswith(selector.upper())


def unknown_selectors(selectors: Iterable[str]) -> list[str]:
    """Selectors that fit no rule: a spelling mistake to tell about."""
    return [s for s in selectors if not any(selects(s, r) for r in BY_NAME.values())]


def check_severities(severities: Mapping[str, str]) -> list[str]:
    """Complaints about a severity table, ready to print."""
    problems = []
    codes = {r.code for r in BY_NAME.values()}
    for key, value in severities.items():
        if key not in BY_NAME and key not in codes:
            problems.append(f"no rule is called {key!r}")
        if value not in (*SEVERITIES, OFF):
            problems.append(f"severity of {key} is {value!r}; it must be one of {', '.join((*SEVERITIES, OFF))}")
    return problems
