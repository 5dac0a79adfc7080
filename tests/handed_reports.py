"""What the checker says about programs of the fault kinds users reported (``../shared/cases/reports``), as a command:

    python tests/handed_reports.py [--verbose] [--id ID] [FOLDER]

Prints for each report whether its ``expectation.check`` is met: severity, line and second location, for the candidate
targets and for each target the program is meant for. Exits 0 with a word when the folder is absent, 1 if one is not met.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tilec.check import check_analysis
from tilec.check.diagnostic import Diagnostic
from tilec.evaluate import analyse
from tilec.source.file import SourceFile
from tilec.target.chips import DECLARED, find

from tile_lsp.releases import manifest

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "cases" / "reports"
LOUD = ("error", "warning")


def targets_of(case: dict[str, Any]) -> list[tuple[str, ...] | None]:
    """None stands for no target named by the user."""
    least = case["min_target"]
    fitting = DECLARED if least == "cpu" else DECLARED[DECLARED.index(least) :]
    return [None, *((t,) for t in fitting)]


def diagnostics(path: Path, targets: tuple[str, ...] | None) -> list[Diagnostic]:
    source = SourceFile(str(path), path.read_text())
    text = "factory()" if "\ndef factory(" in source.text else ""
    analysis = analyse(source, instances=(text,) if text else ())
    chosen = [find(t) for t in targets or DECLARED]
    return check_analysis(analysis, chosen, manifest.load("0.1.15"), explicit=targets is not None)


def complaint(wanted: dict[str, Any], found: list[Diagnostic]) -> str | None:
    """Why what is found is not what is wanted; None if it is."""
    severity, line = wanted["severity"], wanted.get("line")
    loud = [d for d in found if d.severity in LOUD]
    at = [d for d in found if d.span.line == line]
    said = "; ".join(f"{d.span.line} {d.severity} {d.name}: {d.message}" for d in found) or "nothing"
    if severity == "none" or (severity == "error-or-none" and not loud):
        return f"wanted nothing, got {said}" if loud else None
    kind = {"note": "information", "error-or-none": "error"}.get(severity, severity)
    hit = next((d for d in at if d.severity == kind), None)
    if hit is None:
        return f"wanted {kind} at line {line} ({wanted['about']}), got {said}"
    if any(d is not hit for d in loud):
        return f"more than the wanted one: {said}"
    related = wanted.get("related_line")
    if related is not None and all(r.span.line != related for r in hit.related):
        return f"no second location at line {related}; there are {[r.span.line for r in hit.related]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=str(DEFAULT))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--id")
    options = parser.parse_args()
    folder = Path(options.folder)
    if not (folder / "index.json").is_file():
        print(f"no reports at {folder}; nothing measured")
        return 0
    cases = json.loads((folder / "index.json").read_text())["cases"]
    met = unmet = 0
    started = time.perf_counter()
    for case in cases:
        if options.id not in (None, case["id"]):
            continue
        complaints: dict[str, str] = {}
        for targets in targets_of(case):
            found = diagnostics(folder / case["file"], targets)
            if options.verbose:
                for d in found:
                    print(f"       {','.join(targets or ('default',))} {d.span.line}: {d.severity} {d.name}: {d.message}")
            text = complaint(case["expectation"]["check"], found)
            if text is not None:
                complaints.setdefault(text, ",".join(targets or ("default",)))
        met, unmet = met + (not complaints), unmet + bool(complaints)
        print(f"{'unmet' if complaints else 'met  '}  {case['id']} {case['file']}")
        for text, where in complaints.items():
            print(f"       [{where}] {text}")
    print(f"reports {met}/{met + unmet} met; {time.perf_counter() - started:.1f} s")
    return 1 if unmet else 0


if __name__ == "__main__":
    sys.exit(main())
