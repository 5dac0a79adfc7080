"""TileLang's own tests and examples on this compiler: how many pass, by folder.

    python benchmarks/peer_suite.py TREE [--only language,kernel,...] [--jobs 16] [--json FILE] [--timeout SECONDS] [--failures] [--cpu]

TREE is a checkout of the public repository; its files are run unchanged, each in a process of its own, with ``tilelang`` served by
tilec (``python -m tilec -m pytest FILE``). Tests that need a GPU skip without one. A second table leaves out what ``peer_excluded.txt``
lists, with reasons: tests of TileLang's implementation and of TVM, of its own CUDA text and messages.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

FOLDERS = ("language", "kernel", "issue", "analysis", "fastmath", "math")
OUTCOMES = ("passed", "failed", "skipped", "timeout")


def files_of(tree: Path, only: list[str]) -> list[tuple[str, Path]]:
    """(folder, file) of what is run."""
    found = []
    for folder in FOLDERS:
        found += [(folder, f) for f in sorted((tree / "testing" / "python" / folder).rglob("test_*.py"))]
    found += [("examples", f) for f in sorted((tree / "examples").rglob("test_*.py"))]
    return [(folder, f) for folder, f in found if not only or folder in only]


def run_file(path: Path, timeout: float, cpu: bool, deadline: float, root: Path, gpu: int | None = None) -> list[tuple[str, str, str]]:
    """(test, outcome, why) of one file, run on the GPU numbered ``gpu`` (None: on whichever is the first)."""
    timeout = min(timeout, deadline - time.monotonic())
    if timeout <= 0:
        return [(path.stem, "timeout", "not started in time")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "tilec", "-m", "pytest", str(path), "-q", "--tb=line", "-p", "no:cacheprovider", f"--junitxml={report}",
                   f"--rootdir={path.parent}", "--noconftest", "-o", "addopts="]
        environment = dict(os.environ)
        search = [environment.get("PYTHONPATH"), str(root)]  # some tests import the tree's examples
        if cpu:
            command += ["-p", "peer_cpu"]
            search.insert(0, str(Path(__file__).parent))
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
        try:
            done = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, timeout=timeout, env=environment)
        except subprocess.TimeoutExpired:
            return [(path.stem, "timeout", f"more than {timeout:.0f} s")]
        if not report.is_file():
            return [(path.stem, "failed", (done.stdout + done.stderr).strip().splitlines()[-1][:300] if done.stdout + done.stderr else f"exit {done.returncode}")]
        return [outcome_of(case) for case in ET.parse(report).getroot().iter("testcase")]


def outcome_of(case: ET.Element) -> tuple[str, str, str]:
    name = f"{case.get('classname', '')}::{case.get('name', '')}"
    for kind, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        part = case.find(kind)
        if part is not None:
            text = (part.get("message") or "") + "\n" + (part.text or "")
            return name, outcome, " ".join(text.split())[:400]
    return name, "passed", ""


# -- what is not about behaviour -------------------------------------------------------------------------------------------------
EXCLUDED = Path(__file__).with_name("peer_excluded.txt")


def excluded(path: Path = EXCLUDED) -> list[tuple[str, str]]:
    """(pattern, reason) of the tests that are counted apart."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return [(pattern, reason) for pattern, reason in lines]


def reason_of(folder: str, file: str, test: str, patterns: list[tuple[str, str]]) -> str | None:
    """Why a test is counted apart; None if it is not."""
    full = f"{folder}/{file}::{test.partition('::')[2]}"
    name = full.partition("[")[0]
    return next((reason for pattern, reason in patterns if fnmatchcase(full if "[" in pattern else name, pattern)), None)


def failing_files(record: list[dict[str, str]]) -> set[tuple[str, str]]:
    patterns = excluded()
    return {(r["folder"], r["file"]) for r in record
            if r["outcome"] in ("failed", "timeout") and reason_of(r["folder"], r["file"], r["test"], patterns) is None}


def table(counts: dict[str, Counter[str]]) -> str:
    lines = [f"{'folder':12}" + "".join(f"{o:>9}" for o in OUTCOMES) + f"{'passed/run':>12}"]
    total: Counter[str] = Counter()
    for folder, count in counts.items():
        lines.append(_row(folder, count))
        total += count
    return "\n".join([*lines, _row("all", total)])


def _row(name: str, count: Counter[str]) -> str:
    ran = count["passed"] + count["failed"] + count["timeout"]
    share = f"{count['passed'] / ran:.1%}" if ran else "-"
    return f"{name:12}" + "".join(f"{count[o]:9}" for o in OUTCOMES) + f"{share:>12}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--only", default="", help="folders, separated by commas")
    parser.add_argument("--match", default="", help="files whose name has this text")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--limit", type=float, default=7200.0, help="seconds for everything; files not run by then count as timeouts")
    parser.add_argument("--again", type=Path, help="the --json of a run before: only files in which a test of behaviour failed or timed out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cpu", action="store_true", help="without a GPU: compile for sm_90a, execute on the CPU target")
    parser.add_argument("--gpus", type=int, default=1, help="files take turns on so many GPUs")
    parser.add_argument("--failures", action="store_true", help="list what fails and why")
    args = parser.parse_args()
    chosen = [(folder, f) for folder, f in files_of(args.tree.resolve(), [n for n in args.only.split(",") if n]) if args.match in f.name]
    if args.again:
        wanted = failing_files(json.loads(args.again.read_text(encoding="utf-8")))
        chosen = [(folder, f) for folder, f in chosen if (folder, f.name) in wanted]
    if not chosen:
        print(f"peer_suite: no tests under {args.tree}", file=sys.stderr)
        return 2
    start = time.monotonic()
    chosen.sort(key=lambda item: -item[1].stat().st_size)  # the longest first, so that they do not end alone
    deadline = start + args.limit
    with ThreadPoolExecutor(args.jobs) as pool:
        tasks = [pool.submit(run_file, path, args.timeout, args.cpu, deadline, args.tree.resolve(), i % args.gpus if args.gpus > 1 else None)
                 for i, (_, path) in enumerate(chosen)]
        results = [task.result() for task in tasks]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    behaviour: dict[str, Counter[str]] = defaultdict(Counter)
    apart: Counter[str] = Counter()
    patterns = excluded()
    for (folder, path), found in zip(chosen, results):
        counts[folder].update(outcome for _, outcome, _ in found)
        for name, outcome, _ in found:
            reason = reason_of(folder, path.name, name, patterns)
            if reason is None:
                behaviour[folder][outcome] += 1
            else:
                apart[reason] += 1
        for name, outcome, why in found if args.failures else ():
            if outcome in ("failed", "timeout"):
                print(f"{folder}/{path.name} {name}: {why}")
    print(table(counts))
    print(f"\nof behaviour, without {sum(apart.values())} tests ({', '.join(f'{n} {reason}' for reason, n in apart.most_common())}; {EXCLUDED.name}):")
    print(table(behaviour))
    print(f"{len(chosen)} files in {time.monotonic() - start:.0f} s")
    if args.json:
        record = [{"folder": folder, "file": path.name, "test": n, "outcome": o, "why": w} for (folder, path), found in zip(chosen, results) for n, o, w in found]
        args.json.write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
