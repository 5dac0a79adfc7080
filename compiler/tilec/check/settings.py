"""Which rules report, and how loudly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from ..records import dataclass
from .diagnostic import INFORMATION, SEVERITIES
from .registry import BY_NAME, Rule
from .table import OPT_IN

OFF = "off"


@dataclass(frozen=True)
class Settings:
    """``select`` / ``ignore``: codes, prefixes of codes (``TL5``), names or families; ``select`` empty means all but the
    hints of ``OPT_IN``.

    ``severities``: rule name or code -> error | warning | information | off.
    ``unused_ignores``: tell comments that silence nothing. Only who checks all kernels of a file at once can know.
    """

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    severities: Mapping[str, str] = field(default_factory=dict)
    unused_ignores: bool = False
    extend: frozenset[str] = frozenset()  # selected besides: hints that are not told unasked

    def severity(self, rule: Rule, default: str) -> str:
        for key in (rule.name, rule.code):
            if key in self.severities and default != INFORMATION:
                return self.severities[key]
            if self.severities.get(key) == OFF:
                return OFF
        return default

    def wants(self, rule: Rule) -> bool:
        chosen = any(selects(s, rule) for s in self.select)
        if (self.select and not chosen) or any(selects(s, rule) for s in self.ignore):
            return False
        asked = chosen or any(selects(s, rule) for s in self.extend) or rule.name in self.severities or rule.code in self.severities
        return asked or rule.name not in OPT_IN


def selects(selector: str, rule: Rule) -> bool:
    if not selector:
        return False
    return selector.lower() in (rule.name, rule.family, "all") or rule.code.startswith(selector.upper())


def unknown_selectors(selectors: Iterable[str]) -> list[str]:
    """Selectors that fit no rule: a spelling mistake to tell about."""
    return [s for s in selectors if not any(selects(s, r) for r in BY_NAME.values())]


def near_selectors(selector: str) -> list[str]:
    """What a selector that fits no rule may have meant."""
    import difflib

    known = dict.fromkeys(t for r in BY_NAME.values() for t in (r.name, r.family, r.code))
    folded = {t.lower(): t for t in known}
    return [folded[t] for t in difflib.get_close_matches(selector.lower(), folded, n=2, cutoff=0.7)]


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
