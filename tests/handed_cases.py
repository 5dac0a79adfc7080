"""Recall and false alarms on labelled cases kept beside the project (``../shared/cases/open``), as a command:

    python tests/handed_cases.py [--verbose] [--rule NAME] [FOLDER]

Prints which faults are found at their lines and which good programs are accused. Exits 0 with a word when
the folder is absent.
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
from tilec.target.chips import find

from tile_lsp.releases import manifest

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "cases" / "open"
ALL = ("sm_80", "sm_90a", "sm_100a")


def argument(value: Any) -> str:
    if isinstance(value, dict) and "tensor" in value:
        shape = ", ".join(map(str, value["tensor"]))
        return f"tensor(({shape},), {value.get('dtype', 'float32')!r})"
    if isinstance(value, dict) and "expr" in value:
        return str(value["expr"])
    return repr(value)


def instance_texts(case: dict[str, Any]) -> tuple[str, ...]:
    """How the case says its kernels are made, as ``--instance`` texts."""
    entries = case["instantiate"] if isinstance(case["instantiate"], list) else [case["instantiate"]]
    texts = []
    for entry in entries:
        if entry["how"] in ("jit", "factory"):
            given = [argument(a) for a in entry.get("args") or []]
            given += [f"{k}={argument(v)}" for k, v in (entry.get("kwargs") or {}).items()]
            texts.append(f"{entry['name']}({', '.join(given)})")
    return tuple(texts)


def diagnostics(path: Path, case: dict[str, Any], version: str, targets: tuple[str, ...] | None) -> list[Diagnostic]:
    source = SourceFile(str(path), path.read_text())
    analysis = analyse(source, instances=instance_texts(case))
    chosen = targets or ALL
    return check_analysis(analysis, [find(t) for t in chosen], manifest.load(version), explicit=targets is not None)


def verdicts(folder: Path, case: dict[str, Any]):
    """What is claimed: (targets or None for the default, version, verdict)."""
    targets = ALL if case["targets"] == ["any"] else tuple(case["targets"])
    for target in targets:
        yield (target,), "0.1.15", case["verdict"]
    for target, other in (case.get("elsewhere") or {}).items():
        yield (target,), "0.1.15", other["verdict"]
    for version, verdict in (case.get("versions") or {}).items():
        yield (targets[0],), version, verdict
    if case["verdict"] == "ok":
        yield None, "0.1.15", "ok"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=str(DEFAULT))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--rule")
    options = parser.parse_args()
    folder = Path(options.folder)
    if not (folder / "index.json").is_file():
        print(f"no labelled cases at {folder}; nothing measured")
        return 0
    cases = json.loads((folder / "index.json").read_text())["cases"]
    found = missed = false = silent = warned = unwarned = other = 0
    started = time.perf_counter()
    for case in cases:
        if options.rule and case["rule"] != options.rule:
            continue
        lines = {case.get("line"), *(case.get("alt_lines") or [])}
        for targets, version, verdict in verdicts(folder, case):
            name = f"{case['file']} [{case['rule']}] {','.join(targets or ('default',))} {version}"
            try:
                reported = diagnostics(folder / case["file"], case, version, targets)
            except Exception as error:
                print(f"CRASH  {name}: {type(error).__name__}: {error}")
                if options.verbose:
                    raise
                false += 1
                continue
            errors = [d for d in reported if d.severity == "error"]
            if verdict == "ok":
                if errors:
                    false += 1
                    print(f"FALSE  {name}: " + "; ".join(f"{d.span.line} {d.name}: {d.message}" for d in errors))
                else:
                    silent += 1
                noise = [d for d in reported if d.severity == "warning"]
                wanted = case.get("wanted_warning")
                if wanted is None and noise:
                    print(f"noise  {name}: " + "; ".join(f"{d.span.line} {d.name}: {d.message}" for d in noise))
                elif wanted is not None and targets is not None and version == "0.1.15":
                    at = {wanted["line"], *(wanted.get("alt_lines") or [])}
                    hit = any(d.span.line in at for d in reported)
                    warned, unwarned = warned + hit, unwarned + (not hit)
                    if not hit:
                        print(
                            f"nowarn {name}: line {wanted['line']} {wanted['text']}; got "
                            + "; ".join(f"{d.span.line} {d.name}" for d in reported)
                        )
                continue
            hits = [d for d in errors if d.span.line in lines or version != "0.1.15"]
            if hits:
                found += 1
                extra = [d for d in errors if d not in hits[:1]]
                if extra:
                    other += 1
                    print(f"extra  {name}: " + "; ".join(f"{d.span.line} {d.name}: {d.message}" for d in extra))
                if options.verbose and hits[0].name != case["rule"]:
                    print(f"named  {name}: {hits[0].name}")
            else:
                missed += 1
                print(
                    f"MISSED {name}: line {case['line']}: {case['fault']} got "
                    + "; ".join(f"{d.span.line} {d.name} {d.message}" for d in reported)
                )
    print(
        f"faults {found}/{found + missed} found, {other} with further reports; "
        f"good programs {silent} silent, {false} accused; "
        f"warnings {warned}/{warned + unwarned}; {time.perf_counter() - started:.1f} s"
    )
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
