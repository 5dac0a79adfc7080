"""A whole tree as a whole process: cold, and with every result in the cache. The aims for TileLang's 285 example files on two
cores are 3 s and 0.4 s.

    python benchmarks/check_tree.py PATH [--jobs N] [--repeat 5] [--json FILE]

The cache and the compiled Python that an installed package has lie in folders of their own. Processor times are told too: on a
machine with other work they say more than the clock.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from check_speed import command, environment


def measure(arguments: list[str], env: dict[str, str]) -> dict[str, float]:
    before, begun = os.times(), time.perf_counter()
    done = subprocess.run([*command(), "check", "--output-format", "concise", *arguments], capture_output=True, text=True, check=False, env=env)
    took, after = time.perf_counter() - begun, os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    print(f"  {took:7.2f} s, processor {after.children_user + after.children_system - before.children_user - before.children_system:7.2f} s: "
          f"{done.stdout.splitlines()[-1]}")
    return {"seconds": took, "processor": after.children_user + after.children_system - before.children_user - before.children_system}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--repeat", type=int, default=5, help="of the cached run")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = {**environment(f"{folder}/compiled"), "TILE_LSP_CACHE_DIR": f"{folder}/cache"}
        subprocess.run([*command(), "check", "--no-cache", str(Path(__file__))], capture_output=True, check=False, env=env)  # compiles
        print(f"cold, {args.jobs} processes")
        cold = measure(["--jobs", args.jobs, args.path], env)
        print("cached")
        cached = [measure([args.path], env) for _ in range(args.repeat)]
    median = statistics.median(c["seconds"] for c in cached)
    print(f"cold {cold['seconds']:.2f} s, cached {median:.2f} s (median of {args.repeat})")
    if args.json:
        args.json.write_text(json.dumps({"cold": cold, "cached": cached}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
