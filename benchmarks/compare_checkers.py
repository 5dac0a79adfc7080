"""What different tools say about kernels whose verdict is known: faults found at their line, and sound kernels called faulty.

    python benchmarks/compare_checkers.py FOLDER [--pypi PYTHON] [--ty PROGRAM] [--pyright PROGRAM] [--tilelang VENV]

FOLDER has an ``index.json`` with a verdict, a line and what TileLang itself did for each file. ``--pypi``: a Python with the package
``tile-lsp`` of PyPI; ``--tilelang``: an environment with TileLang, which the type checkers resolve imports in.
"""
from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

Found = dict[str, set[int]]  # file name -> lines of reported errors
_CONCISE = re.compile(r"^(?P<file>[^:\n]+\.py):(?P<line>\d+):\d+: error", re.MULTILINE)
_PYPI = """
import json, pathlib, sys
from tiled_server.diagnostics import compute_diagnostics
found = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    found[path.name] = [d.range.start.line + 1 for d in compute_diagnostics(path.as_uri(), path.read_text()) if int(d.severity or 1) <= 2]
print(json.dumps(found))
"""


def ours(folder: Path, cases: list[dict]) -> Found:
    """Each file for the chips it is about and at the arguments it is used with: what its project says in its configuration."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from handed_cases import ALL, diagnostics

    found: Found = {}
    for case in cases:
        targets = ALL if case["targets"] == ["any"] else tuple(case["targets"])
        errors = [d for d in diagnostics(folder / case["file"], case, "0.1.15", targets[:1]) if d.severity == "error"]
        found[case["file"]] = {d.span.line for d in errors}
    return found


def pypi(python: str, folder: Path) -> Found:
    done = subprocess.run([python, "-c", _PYPI, str(folder)], capture_output=True, text=True, check=True)
    return {name: set(lines) for name, lines in json.loads(done.stdout).items()}


def ty(program: str, folder: Path, venv: str) -> Found:
    command = [program, "check", "--output-format", "concise", *(["--python", venv] if venv else []), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    return _by_file((Path(m["file"]).name, int(m["line"])) for m in _CONCISE.finditer(done.stdout))


def pyright(program: str, folder: Path, venv: str) -> Found:
    command = [program, "--outputjson", "--level", "error", *(["--pythonpath", f"{venv}/bin/python"] if venv else []), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    return _by_file((Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error")


def tilelang(cases: list[dict]) -> Found:
    """TileLang as recorded: it refuses before or while making CUDA, and says no line of the kernel."""
    return {c["file"]: {0} for c in cases if c.get("oracle", {}).get("raised")}


def _by_file(places) -> Found:
    found: Found = defaultdict(set)
    for name, line in places:
        found[name].add(line)
    return found


def judge(cases: list[dict], found: Found) -> tuple[int, int, int, int]:
    """Faulty files called faulty; those at the right line; sound files called faulty; errors in sound files."""
    faulty = [c for c in cases if c["verdict"] == "error"]
    sound = [c for c in cases if c["verdict"] == "ok"]
    hit = sum(bool(found.get(c["file"], set()) & {c["line"], *c.get("alt_lines", ())}) for c in faulty)
    return sum(bool(found.get(c["file"])) for c in faulty), hit, sum(bool(found.get(c["file"])) for c in sound), sum(len(found.get(c["file"], ())) for c in sound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pypi", default="")
    parser.add_argument("--ty", default="")
    parser.add_argument("--pyright", default="")
    parser.add_argument("--tilelang", default="")
    args = parser.parse_args()
    cases = json.loads((args.folder / "index.json").read_text())["cases"]
    tools = {"tile-lsp (this project)": lambda: ours(args.folder, cases), "TileLang itself, as recorded": lambda: tilelang(cases)}
    if args.pypi:
        tools["tile-lsp of PyPI"] = lambda: pypi(args.pypi, args.folder)
    if args.ty:
        tools["ty"] = lambda: ty(args.ty, args.folder, args.tilelang)
    if args.pyright:
        tools["basedpyright"] = lambda: pyright(args.pyright, args.folder, args.tilelang)
    count = sum(c["verdict"] == "error" for c in cases)
    print(f"{count} faulty and {len(cases) - count} sound files")
    print("| tool | faulty found | at the line | sound called faulty | errors in them | seconds |\n|---|---|---|---|---|---|")
    for name, tool in tools.items():
        begun = time.perf_counter()
        found, hit, alarms, errors = judge(cases, tool())
        print(f"| {name} | {found} | {hit} | {alarms} | {errors} | {time.perf_counter() - begun:.1f} |", flush=True)


if __name__ == "__main__":
    main()
