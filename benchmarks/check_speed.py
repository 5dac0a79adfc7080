"""One-file check as a whole process: what an editor's save hook or pre-commit waits for. The aim is a median of 0.25 s.

    python benchmarks/check_speed.py [FILE...] [--repeat 20] [--json FILE]

Every file is checked by itself in a new process, after one run that is not counted. It leaves the compiled Python that an
installed package has, whatever PYTHONDONTWRITEBYTECODE says, in a folder of its own.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_MS = 250.0


def command() -> list[str]:
    """The installed command, as users start it."""
    script = Path(sys.executable).with_name("tile-lsp")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "tile_lsp"]


def environment(compiled: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}, "PYTHONPYCACHEPREFIX": compiled}


def measure(path: Path, repeat: int, env: dict[str, str]) -> dict[str, float]:
    """Milliseconds of wall clock and of processor time, child processes included."""
    wall, processor = [], []
    for number in range(repeat + 1):
        before, begun = os.times(), time.perf_counter()
        done = subprocess.run([*command(), "check", "--no-cache", str(path)], capture_output=True, text=True, check=False, env=env)
        took, after = time.perf_counter() - begun, os.times()
        if done.returncode not in (0, 1):
            raise SystemExit(f"tile-lsp check {path} failed:\n{done.stderr}")
        if number:
            wall.append(took * 1e3)
            processor.append((after.children_user + after.children_system - before.children_user - before.children_system) * 1e3)
    return {"median_ms": statistics.median(wall), "min_ms": min(wall), "max_ms": max(wall), "processor_ms": statistics.median(processor)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, default=[ROOT / "examples" / n for n in ("gemm.py", "flash_attention.py", "elementwise_add.py")])
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as compiled:
        rows = {path.name: measure(path, args.repeat, environment(compiled)) for path in args.files}
    print(f"tile-lsp check, one file a process, {args.repeat} times; milliseconds (aim: median {LIMIT_MS:.0f})")
    print(f"{'file':28}{'median':>9}{'min':>9}{'max':>9}{'processor':>11}")
    for name, row in rows.items():
        print(f"{name:28}{row['median_ms']:9.1f}{row['min_ms']:9.1f}{row['max_ms']:9.1f}{row['processor_ms']:11.1f}")
    if args.json:
        args.json.write_text(json.dumps({"repeat": args.repeat, "limit_ms": LIMIT_MS, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["median_ms"] <= LIMIT_MS for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
