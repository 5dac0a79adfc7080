"""Confirms which mutants are wrong, and writes ``confirmed.json``:

    python confirm.py PYTHON [FAMILY..] [--all] [--jobs 2]

PYTHON is an interpreter with tilelang 0.1.15. What it refuses (tracing, lowering, code generation, nvcc) is wrong. What it accepts is run by
the project's reference interpreter against the seed's reference function, then held against the rule of the hardware the operator names,
then assembled. What passes all of it is right: the checker must not call it wrong. Mutants that have a verdict keep it without ``--all``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from generate import PER_FAMILY, mutants
from mutant import Mutant
from oracle import Oracle

VERDICTS = Path(__file__).resolve().parent / "confirmed.json"


def read(path: Path = VERDICTS) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(verdicts: dict[str, dict[str, Any]], path: Path = VERDICTS) -> None:
    # Where TileLang is installed says something about the machine, and nothing about the mutant.
    lines = [re.sub(r"/[^\" ]*/site-packages/", "", f"{json.dumps(k)}: {json.dumps(verdicts[k])}") for k in sorted(verdicts)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def interpreted(text: str) -> tuple[str, str]:
    from interpreted import judge

    return judge(text)


def confirm(mutant: Mutant, oracle: Oracle, pool: Any) -> dict[str, Any]:
    found = oracle.judge(mutant.text, mutant.target)
    if found["stage"] is None:
        outcome, words = pool.apply(interpreted, (mutant.text,))
        if outcome == "wrong":
            return {"digest": mutant.digest, "verdict": "wrong", "stage": "interpreter", "message": words}
        if mutant.because:
            return {"digest": mutant.digest, "verdict": "wrong", "stage": "rule", "message": mutant.because, "interpreter": outcome}
        if shutil.which("nvcc"):
            found = oracle.judge(mutant.text, mutant.target, nvcc=True)
        if found["stage"] is None:
            return {"digest": mutant.digest, "verdict": "ok", "interpreter": outcome, **({"why": words} if words else {})}
    verdict = "unknown" if found["stage"] in ("oracle", "process") else "wrong"
    return {"digest": mutant.digest, "verdict": verdict, **{k: v for k, v in found.items() if v is not None}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("family", nargs="*")
    parser.add_argument("--all", action="store_true", help="also those that have a verdict")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--salt", default="", help="other mutants than the recorded ones; with --out")
    parser.add_argument("--number", type=int, default=PER_FAMILY, help="of mutants a family")
    parser.add_argument("--out", type=Path, default=VERDICTS)
    options = parser.parse_args()
    verdicts, every = read(options.out), mutants(options.salt, options.number)
    verdicts = {m.key: verdicts[m.key] for m in every if m.key in verdicts and verdicts[m.key]["digest"] == m.digest}
    todo = [m for m in every if (not options.family or m.family in options.family) and (options.all or m.key not in verdicts)]
    lock = threading.Lock()
    queue = list(reversed(todo))

    def work() -> None:
        oracle = Oracle(options.python)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            while True:
                with lock:
                    if not queue:
                        break
                    mutant = queue.pop()
                verdict = confirm(mutant, oracle, pool)
                with lock:
                    verdicts[mutant.key] = verdict
                    print(f"{len(todo) - len(queue)}/{len(todo)} {mutant.key}: {verdict['verdict']} {verdict.get('stage', '')} {verdict.get('message', '')[:110]}", flush=True)
                    if len(queue) % 20 == 0:
                        write(verdicts, options.out)
        oracle.close()

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    write(verdicts, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
