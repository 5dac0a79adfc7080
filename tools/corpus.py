"""Audit of the checker over a tree of TileLang files that are taken to be right: every diagnostic is a suspected false alarm.

    python tools/corpus.py PATH... [--tilelang-version VERSION] [--target CHIP] [--rule NAME] [--json FILE]

Prints diagnostics by rule with their places, how many kernels became tile programs with everything known (and why the others did
not), crashes, slow files and the time. Exit 1 if the checker crashed on a file.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tilec.check.checker import check_analysis
from tilec.evaluate import analyse, instantiate
from tilec.evaluate.coverage import gap
from tilec.source import SourceFile
from tilec.target import chips

from tile_lsp.releases import discover, manifest

SLOW_SECONDS = 0.5


@dataclass(frozen=True)
class Finding:
    place: str
    rule: str
    severity: str
    message: str


@dataclass
class Audit:
    """What one walk over a tree found."""

    files: int = 0
    kernels: int = 0
    instances: int = 0
    analysed: int = 0  # kernels with at least one instance in which everything is known
    findings: list[Finding] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)  # why a kernel is not analysed -> kernels
    examples: dict[str, list[str]] = field(default_factory=dict)  # the same reasons -> kernels
    crashes: dict[str, str] = field(default_factory=dict)
    slow: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0  # of this process: other work on the machine does not count


def audit_file(path: Path, api, targets: tuple[chips.Target, ...], explicit: bool, audit: Audit) -> None:
    analysis = analyse(SourceFile(str(path), path.read_text(encoding="utf-8", errors="replace")))
    audit.files += 1
    gaps: dict[str, list[str | None]] = {k.qualname: [] for k in analysis.kernels}

    def program_of(kernel, instance):
        program = instantiate(analysis, kernel, instance)
        gaps[kernel.qualname].append(gap(program))
        audit.instances += 1
        return program

    for d in check_analysis(analysis, targets, api, explicit=explicit, programs=program_of, assumed=True):
        audit.findings.append(Finding(f"{d.span.path}:{d.span.line}:{d.span.column}", d.name, d.severity, d.message))
    for name, found in gaps.items():
        audit.kernels += 1
        if None in found:
            audit.analysed += 1
            continue
        reason = next((g for g in found if g), "no instance is known")
        audit.unknown[reason] += 1
        audit.examples.setdefault(reason, []).append(f"{path}::{name}")


def python_files(paths: list[str]) -> Iterator[Path]:
    for text in paths:
        path = Path(text)
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def api_of(path: Path, version: str | None):
    """The names of a release, by default of the TileLang that the tree vendors or requires."""
    if version is None:
        found = discover.find(path, environ={})
        if found is not None:
            return discover.api(found)
    return manifest.load(version or "latest")


def run(paths: list[str], version: str | None, targets: tuple[chips.Target, ...], explicit: bool) -> Audit:
    audit = Audit()
    begun = time.process_time()
    for path in python_files(paths):
        api = api_of(path, version)
        start = time.process_time()
        try:
            audit_file(path, api, targets, explicit, audit)
        except Exception:
            audit.crashes[str(path)] = traceback.format_exc(limit=-3)
        took = time.process_time() - start
        if took > SLOW_SECONDS:
            audit.slow.append((round(took, 2), str(path)))
    audit.seconds = time.process_time() - begun
    return audit


def report(audit: Audit, rule: str | None, per_rule: int) -> None:
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for f in audit.findings:
        by_rule[f.rule].append(f)
    for name, found in sorted(by_rule.items(), key=lambda item: -len(item[1])):
        if rule is not None and name != rule:
            continue
        print(f"{name}: {len(found)} ({', '.join(f'{n} {s}' for s, n in Counter(f.severity for f in found).items())})")
        for f in found[: None if rule else per_rule]:
            print(f"    {f.place}: {f.severity}: {f.message}")
    print("\nkernels not analysed, by reason:")
    for reason, count in audit.unknown.most_common():
        print(f"    {count:3} {reason}    e.g. {audit.examples[reason][0]}")
    for path, text in audit.crashes.items():
        print(f"\nCRASH {path}\n{text}")
    for took, path in sorted(audit.slow, reverse=True):
        print(f"slow: {took} s {path}")
    share = f"{audit.analysed / audit.kernels:.1%}" if audit.kernels else "-"
    print(f"\n{audit.files} files, {audit.kernels} kernels, {audit.instances} instances; {audit.analysed} kernels analysed ({share}); "
          f"{len(audit.findings)} diagnostics, {len(audit.crashes)} crashes, {audit.seconds:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--tilelang-version", help="default: of the tree the files lie in, else the newest")
    parser.add_argument("--target", action="append", default=[], metavar="CHIP")
    parser.add_argument("--rule", help="show all findings of this rule, and of no other")
    parser.add_argument("--per-rule", type=int, default=20, metavar="N", help="findings shown per rule (default: 20)")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    targets = tuple(chips.find(n) for n in args.target or chips.DECLARED)
    audit = run(args.paths, args.tilelang_version, targets, bool(args.target))
    report(audit, args.rule, args.per_rule)
    if args.json:
        Path(args.json).write_text(json.dumps({**vars(audit), "findings": [asdict(f) for f in audit.findings]}, indent=1), encoding="utf-8")
    return 1 if audit.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
