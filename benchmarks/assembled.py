"""What ptxas makes of the examples' kernels and of those that TileLang's tests compile, beside TileLang's own: no GPU is needed.

    python benchmarks/assembled.py TREE [--peer PYTHON] [--match TEXT] [--chips sm_90a,sm_80] [--more sm_100a] [--keep FOLDER] [--jobs 2] [--json FILE]

TREE is a checkout of TileLang's repository, of which ``examples/**/test_*.py`` are run as they are (``--files`` names others) by pytest
with ``capture_kernels``: each kernel is lowered for every chip and assembled by NVRTC or nvcc. PYTHON has TileLang and pytest; the same is done with it.
Shown are registers, bytes spilled, stack, shared memory in KiB. A rejection by the CUDA compiler is a fault and makes the exit status 1; what the
compiler refuses with a diagnostic is told below the table. With ``--keep`` the texts stay, and captures found in the folder are used again.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OWN = ROOT / "benchmarks" / "example_kernels.py"
CAPTURE_SECONDS = 1800
ASSEMBLE_SECONDS = 600

Key = tuple[str, str, int, str]  # script, kernel, number, chip


# -- capturing ----------------------------------------------------------------------------------------------------------------------
def capture(script: Path, folder: Path, chips: list[str], peer: str | None) -> str:
    """Runs one file; why it failed as a whole, or nothing."""
    environment = {**os.environ, "CAPTURE_OUT": str(folder), "CAPTURE_ARCH": chips[0], "CAPTURE_MORE": ",".join(chips[1:])}
    search = [str(ROOT / "benchmarks")]
    if peer is None:
        search = [str(ROOT), str(ROOT / "compiler"), *search]
        command = [sys.executable, "-m", "tilec", "-m", "pytest"]
    else:
        command = [peer, "-P", "-m", "pytest"]  # -P: not the tree's own package, which is not built
    command += [str(script), "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "capture_kernels", "--noconftest", "-o", "addopts=", f"--rootdir={script.parent}"]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*search, os.environ.get("CAPTURE_PATH")]))  # e.g. einops, which some tests import
    try:
        done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=CAPTURE_SECONDS, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {CAPTURE_SECONDS} s"
    if done.returncode in (0, 1, 5):
        return ""
    return ((done.stdout + done.stderr).strip().splitlines() or ["no message"])[-1][:300]


def scripts_of(tree: Path, patterns: list[str], match: str) -> list[Path]:
    found = [OWN] + [f for p in patterns for f in sorted(tree.glob(p))]
    return [f for f in found if match in str(f)]


def entries(folder: Path) -> list[dict[str, Any]]:
    index = folder / "index.jsonl"
    return [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()] if index.is_file() else []


# -- assembling ---------------------------------------------------------------------------------------------------------------------
def assemble(folder: Path, entry: dict[str, Any], includes: list[str] | None) -> dict[str, Any]:
    """Resources of one text, or ``rejected``. ``includes`` is where TileLang's headers are, None for our own text."""
    from tilec.build import cache
    from tilec.build.nvcc import ToolkitError, parse_resources

    if "file" not in entry:
        return {"refused": entry["error"], "diagnostic": bool(entry.get("diagnostic"))}
    text = (folder / entry["file"]).read_text(encoding="utf-8")
    kept = folder / "assembled" / f"{cache.key(text, entry['arch'], str(entry.get('fast_math')), *entry.get('flags', ()))}.json"
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    try:
        if includes is None:
            log = _our_log(text, entry)
        else:
            log = _peer_log(folder / entry["file"], entry, includes)
        found = list(parse_resources(log).values())
        result = {"registers": max((r.registers for r in found), default=0), "spill": sum(r.spill_bytes for r in found), "stack": sum(r.stack_bytes for r in found),
                  "shared": max((r.shared_bytes for r in found), default=0) + entry.get("dynamic_shared", 0)}
    except ToolkitError as error:
        result = {"rejected": str(error)}
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(result), encoding="utf-8")
    return result


def _our_log(text: str, entry: dict[str, Any]) -> str:
    from tilec.build.nvcc import compile_source
    from tilec.target.chips import find

    return compile_source(text, find(entry["arch"]), "cubin", bool(entry.get("fast_math"))).log


def _peer_log(path: Path, entry: dict[str, Any], includes: list[str]) -> str:
    from tilec.build.nvcc import ToolkitError, _first_error, find_nvcc

    arch = entry["arch"].removeprefix("sm_")
    with tempfile.TemporaryDirectory() as out:
        command = [str(find_nvcc()), "-cubin", "-O3", "-std=c++20", "-w", "-Xptxas", "-v", "-gencode", f"arch=compute_{arch},code=sm_{arch}", *[f"-I{i}" for i in includes],
                   *(["--use_fast_math"] if entry.get("fast_math") else []), *entry.get("flags", ()), "-o", str(Path(out) / "kernel.cubin"), str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=ASSEMBLE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ToolkitError(f"nvcc did not finish within {ASSEMBLE_SECONDS} seconds") from None
    if done.returncode:
        raise ToolkitError(_first_error(done.stdout + done.stderr))
    return done.stdout + done.stderr


def peer_includes(python: str) -> list[str]:
    command = [python, "-P", "-c", "from tilelang.env import TILELANG_TEMPLATE_PATH as a, CUTLASS_INCLUDE_DIR as b; print(a); print(b)"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.strip().splitlines()[-2:]


# -- the table ------------------------------------------------------------------------------------------------------------------------
def key_of(entry: dict[str, Any]) -> Key:
    return entry["script"], entry["kernel"], entry["number"], entry["arch"]


def cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return f"{'-':>28}"
    if "refused" in result:
        return f"{'refused':>28}"
    if "rejected" in result:
        return f"{'REJECTED':>28}"
    return f"{result['registers']:5}{result['spill']:8}{result['stack']:7}{result['shared'] / 1024:8.1f}"


def report(rows: dict[Key, dict[str, dict[str, Any] | None]], with_peer: bool) -> int:
    """Prints the table; the number of rejections by the CUDA compiler."""
    head = f"{'regs':>5}{'spill':>8}{'stack':>7}{'shared':>8}"
    print(f"{'kernel':66}{'chip':8}{head}" + (f"  |{head}" if with_peer else ""))
    for (script, kernel, number, chip), row in rows.items():
        name = f"{script.removeprefix('test_').removesuffix('.py')}: {kernel}" + (f" ({number + 1})" if number else "")
        more = " <" if more_spills(row) else ""
        print(f"{name[:65]:66}{chip:8}{cell(row['ours'])}" + (f"  |{cell(row['peer'])}" if with_peer else "") + more)
    said: dict[str, list[str]] = {}
    for key, row in rows.items():
        for side in ("ours", "peer"):
            text = (row[side] or {}).get("rejected") or (row[side] or {}).get("refused")
            if text:
                said.setdefault(f"{side}: {'rejected by the CUDA compiler: ' if 'rejected' in (row[side] or {}) else ''}{text}", []).append(f"{key[1]} {key[3]}")
    for text, where in said.items():
        print(f"\n{text}\n    {', '.join(where)}")
    _totals(rows, with_peer)
    return sum("rejected" in (row["ours"] or {}) for row in rows.values())


def more_spills(row: dict[str, dict[str, Any] | None]) -> bool:
    ours, peer = row["ours"] or {}, row["peer"] or {}
    return ours.get("spill", 0) > peer.get("spill", 0) and (not peer or "spill" in peer)


def _totals(rows: dict[Key, dict[str, dict[str, Any] | None]], with_peer: bool) -> None:
    print()
    for chip in dict.fromkeys(k[3] for k in rows):
        mine = [r for k, r in rows.items() if k[3] == chip]
        for side in ("ours", "peer") if with_peer else ("ours",):
            results = [r[side] for r in mine if r[side] is not None]
            ok = [r for r in results if "registers" in r]
            print(f"{chip:8} {side}: {len(ok)} of {len(results)} assembled, {sum('refused' in r for r in results)} refused, {sum('rejected' in r for r in results)} rejected; "
                  f"{sum(r['spill'] > 0 for r in ok)} spill ({sum(r['spill'] for r in ok)} bytes)")
        if with_peer:
            print(f"{chip:8} {sum(map(more_spills, mine))} kernels spill more than TileLang's")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--peer", help="a Python with TileLang and pytest")
    parser.add_argument("--files", default="examples/**/test_*.py", help="patterns under TREE, separated by commas")
    parser.add_argument("--match", default="")
    parser.add_argument("--chips", default="sm_90a,sm_80", help="the first is the GPU that the tests see")
    parser.add_argument("--more", default="", help="further chips, for this compiler only")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]
    with tempfile.TemporaryDirectory() as temporary:
        return run(args, args.keep or Path(temporary))


def run(args: argparse.Namespace, folder: Path) -> int:
    scripts = scripts_of(args.tree.resolve(), args.files.split(","), args.match)
    chips, more = args.chips.split(","), [c for c in args.more.split(",") if c]
    rows: dict[Key, dict[str, dict[str, Any] | None]] = {}
    for side, python in (("ours", None), *([("peer", args.peer)] if args.peer else [])):
        wanted = chips + (more if python is None else [])
        for key, result in one_side(folder / side, scripts, wanted, python, args.jobs).items():
            rows.setdefault(key, {"ours": None, "peer": None})[side] = result
    bad = report(rows, bool(args.peer))
    if args.json:
        args.json.write_text(json.dumps([{"script": k[0], "kernel": k[1], "number": k[2], "chip": k[3], **row} for k, row in rows.items()], indent=1))
    return 1 if bad else 0


def one_side(place: Path, scripts: list[Path], chips: list[str], python: str | None, jobs: int) -> dict[Key, dict[str, Any]]:
    """Captures and assembles with one compiler; ``python`` is TileLang's, None for this one."""
    place.mkdir(parents=True, exist_ok=True)
    done = {e["script"] for e in entries(place)}
    todo = [s for s in scripts if s.name not in done]
    with ThreadPoolExecutor(jobs) as pool:
        for script, failure in zip(todo, pool.map(lambda s: capture(s, place, chips, python), todo)):
            if failure:
                print(f"{script.name}: {failure}", file=sys.stderr)
        includes = peer_includes(python) if python is not None else None
        names = {s.name for s in scripts}
        found = [e for e in entries(place) if e["script"] in names and e["arch"] in chips]
        return {key_of(e): r for e, r in zip(found, pool.map(lambda e: assemble(place, e, includes), found))}


if __name__ == "__main__":
    sys.exit(main())
