"""From the text of the GEMM example to CUDA text in a warm process: what a hover or a lens waits for. The aim is a median of 150 ms.

    python benchmarks/lower_speed.py [--file examples/gemm.py] [--repeat 20] [--json FILE]

Each round reads the text anew: front end (text to tile program), lowering (both phases), emission (thread program to CUDA text).
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from tilec.evaluate import analyse, instantiate
from tilec.pipeline import compile_program
from tilec.source import SourceFile
from tilec.target.chips import Target, find

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("sm_80", "sm_90a", "sm_100a")
STEPS = ("front end", "lowering", "emission", "total")
LIMIT_MS = 150.0


def one_round(path: Path, text: str, target: Target) -> list[float]:
    """Milliseconds of each step, of the last instance in the file (the documented size)."""
    times = [time.perf_counter()]
    analysis = analyse(SourceFile(str(path), text))
    kernel = analysis.kernels[0]
    program = instantiate(analysis, kernel, kernel.instances[-1])
    times.append(time.perf_counter())
    artifact = compile_program(program, target)
    times.append(time.perf_counter())
    artifact.text("cuda")
    times.append(time.perf_counter())
    steps = [(after - before) * 1e3 for before, after in zip(times, times[1:])]
    return [*steps, sum(steps)]


def measure(path: Path, target: Target, repeat: int) -> dict[str, float]:
    text = path.read_text(encoding="utf-8")
    rounds = [one_round(path, text, target) for _ in range(repeat + 2)][2:]  # the first two load modules and fill caches
    return {step: statistics.median(r[i] for r in rounds) for i, step in enumerate(STEPS)} | {"max": max(r[-1] for r in rounds)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=ROOT / "examples" / "gemm.py")
    parser.add_argument("--target", action="append", default=[], metavar="CHIP")
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows = {name: measure(args.file, find(name), args.repeat) for name in args.target or TARGETS}
    print(f"{args.file.name} to CUDA text, warm, {args.repeat} times; median milliseconds (aim: {LIMIT_MS:.0f} in all)")
    print(f"{'target':10}" + "".join(f"{step:>12}" for step in (*STEPS, "max")))
    for name, row in rows.items():
        print(f"{name:10}" + "".join(f"{row[step]:12.1f}" for step in (*STEPS, "max")))
    if args.json:
        args.json.write_text(json.dumps({"repeat": args.repeat, "limit_ms": LIMIT_MS, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["total"] <= LIMIT_MS for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
