"""Recall of the checker over the confirmed mutants: ``python recall.py [FAMILY..] [--misses FILE]``."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from checked import hits, reports, shown
from confirm import VERDICTS, read
from generate import PER_FAMILY, mutants
from mutant import Mutant


@dataclass
class Family:
    found: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)  # a description each
    silent: int = 0
    accused: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        return len(self.found) + len(self.missed)

    @property
    def recall(self) -> float:
        return len(self.found) / self.wrong if self.wrong else 1.0


def measure(wanted: list[str] | None = None, salt: str = "", number: int = PER_FAMILY, recorded: Path = VERDICTS) -> dict[str, Family]:
    families: dict[str, Family] = defaultdict(Family)
    verdicts = read(recorded)
    for m in mutants(salt, number):
        if wanted and m.family not in wanted:
            continue
        family = families[m.family]
        verdict = verdicts.get(m.key)
        if verdict is None or verdict["digest"] != m.digest:
            family.stale.append(m.key)
            continue
        if verdict["verdict"] == "unknown":
            continue
        found = reports(m.text, m.target)
        if verdict["verdict"] == "ok":
            errors = [d for d in found if d.severity == "error"]
            if errors:
                family.accused.append(describe(m, shown(errors), "right"))
            else:
                family.silent += 1
            continue
        lines = {*m.lines, *((verdict["line"],) if verdict.get("line") else ())}
        if hits(found, lines):
            family.found.append(m.key)
        else:
            family.missed.append(describe(m, shown(found), f"{verdict['stage']}: {verdict.get('message', '')[:200]}"))
    return families


def describe(m: Mutant, got: str, why: str) -> str:
    return f"{m.key} [{m.target}] {m.edit[:220]}\n    lines {','.join(map(str, m.lines))}; {why}\n    got {got}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", nargs="*")
    parser.add_argument("--misses", type=Path, help="write what was missed and whom it accuses to this file")
    parser.add_argument("--salt", default="")
    parser.add_argument("--number", type=int, default=PER_FAMILY)
    parser.add_argument("--recorded", type=Path, default=VERDICTS, help="the verdicts that confirm.py wrote")
    options = parser.parse_args()
    families = measure(options.family, options.salt, options.number, options.recorded)
    for name, f in families.items():
        print(f"{name:11} wrong {f.wrong:3} found {len(f.found):3} recall {f.recall:6.1%}  right {f.silent + len(f.accused):3} accused {len(f.accused)}  stale {len(f.stale)}")
    if options.misses:
        text = [f"## {n}: {len(f.found)}/{f.wrong}\n\n" + "".join(f"- {x}\n" for x in f.missed) + "".join(f"- ACCUSED {x}\n" for x in f.accused) for n, f in families.items()]
        options.misses.write_text("\n".join(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
