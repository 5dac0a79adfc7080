"""The latencies that TileLang watches, on this compiler and on TileLang: its ``regression_*`` entry points, side by side.

    python benchmarks/examples_latency.py EXAMPLES [--only TEXT,...] [--peer PYTHON] [--reference FILE] [--json FILE] [--jobs 16] [--sources FOLDER]

EXAMPLES is the folder ``examples`` of a checkout of the public repository; its files are run unchanged, each entry point in a process of its own, with
``tilelang`` served by tilec. ``--peer`` names a Python with TileLang, which runs the same entry right after; both time with the same method, the one the
entry asks for. Processes import, compile and run their kernels once side by side; they are timed one after another, when no other process works.
``--reference`` takes the figures of a run before (its --json) where there is no peer.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

OURS, PEER = "ours", "TileLang"
SOURCES = "EXAMPLES_LATENCY_SOURCES"
MILLISECONDS = "EXAMPLES_LATENCY_MILLISECONDS"
SLOW = 1.25  # a ratio that the acceptance of the project does not allow


@dataclass
class Entry:
    """One ``regression_*`` function and what came of it: milliseconds, or why there are none, by contestant."""

    file: Path
    function: str
    latency: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)  # preparing, measuring
    failure: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.file.parent.name}/{self.function.removeprefix('regression_').removeprefix('example_')}"

    @property
    def ratio(self) -> float | None:
        both = self.latency.get(OURS), self.latency.get(PEER)
        return both[0] / both[1] if both[0] and both[1] else None


def entries(tree: Path, only: list[str]) -> list[Entry]:
    found = []
    for file in sorted(tree.rglob("regression_*.py")):
        names = re.findall(r"^def (regression_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        found += [Entry(file.resolve(), name) for name in names]
    return [e for e in found if not only or any(text in e.name for text in only)]


# -- in the process of one entry ---------------------------------------------------------------------------------------------------
class Gate:
    """Stands for do_bench: while the entry prepares it times hardly anything, so that profilers are loaded, and measures afterwards."""

    def __init__(self, measure: Any):
        self.measure = measure
        self.open = False

    def __call__(self, call: Any, *args: Any, **kwargs: Any) -> Any:
        if self.open:
            limit = float(os.environ.get(MILLISECONDS) or 100.0)
            return self.measure(call, *args, **{**kwargs, "rep": min(kwargs.get("rep", 100.0), limit)} if len(args) < 2 else kwargs)
        return self.measure(call, **{**kwargs, "warmup": 0.01, "rep": 0.01})


def behind_gate(who: str, stem: str) -> tuple[Gate, list[float]]:
    """Puts the gate where the compiler keeps do_bench, and collects what entries hand to process_func."""
    if who == OURS:
        import tilec.jit.profiler
        from tilec.served import install

        install()
    import tilelang
    import tilelang.profiler
    import tilelang.testing

    gate = Gate(tilelang.profiler.do_bench)
    if folder := os.environ.get(SOURCES):
        keep_sources(Path(folder) / who, stem)
    found: list[float] = []
    for module in [tilelang, tilelang.profiler, *([tilec.jit.profiler] if who == OURS else [])]:
        module.do_bench = gate  # type: ignore[attr-defined]
    tilelang.testing.process_func = lambda function, name=None, /, **kwargs: found.append(float(function(**kwargs)))  # type: ignore[attr-defined]
    return gate, found


def keep_sources(folder: Path, stem: str) -> None:
    """The CUDA text of each kernel that is called, in files of its own."""
    from tilelang.jit import JITKernel

    folder.mkdir(parents=True, exist_ok=True)
    call, known = getattr(JITKernel, "_call", JITKernel.__call__), set()  # of ours ``__call__`` is a slot

    def keeping(self: Any, *args: Any, **kwargs: Any) -> Any:
        text = self.get_kernel_source() if id(self) not in known else ""
        known.add(id(self))
        if text and not (path := folder / f"{stem}.{len(known)}.cu").exists():
            path.write_text(text, encoding="utf-8")
        return call(self, *args, **kwargs)

    JITKernel.__call__ = keeping


def stand_in_for_fla() -> None:
    """Linear attention's examples import the package ``fla`` for what they compare with, and to normalise inputs."""
    import torch

    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise ModuleNotFoundError("fla is not installed")

    names: dict[str, Any] = {"fla": None, "fla.ops": None, "fla.modules": None, "fla.ops.linear_attn": ("fused_chunk_linear_attn", unavailable),
                             "fla.modules.l2norm": ("l2norm_fwd", lambda x: (torch.nn.functional.normalize(x.float(), dim=-1).to(x.dtype), None))}
    for name, member in names.items():
        sys.modules[name] = types.ModuleType(name)
        if member is not None:
            setattr(sys.modules[name], *member)


def child(who: str, file: Path, function: str, answers: TextIO) -> None:
    """Prepares, says so, waits for a line, measures, says what."""
    import torch

    sys.argv = [str(file)]
    gate, found = behind_gate(who, f"{file.parent.name}-{function}")
    if importlib.util.find_spec("fla") is None:
        stand_in_for_fla()
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    entry = getattr(module, function)
    entry()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    print("ready", file=answers, flush=True)
    if not sys.stdin.readline():
        return
    found.clear()
    gate.open = True
    entry()
    print(json.dumps(found[0]), file=answers, flush=True)


def run_child(who: str, file: Path, function: str) -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what examples print is no answer
    try:
        child(who, file, function, answers)
    except BaseException as problem:  # whatever ends an example is its result
        text = " ".join(str(problem).split()) or "no message"
        print(f"failed {type(problem).__name__}: {text[:400]}", file=answers, flush=True)
        return 1
    return 0


# -- in the process that asks ------------------------------------------------------------------------------------------------------
class Contestant:
    """The process of an entry on one of the compilers."""

    def __init__(self, entry: Entry, who: str, python: str, timeout: float):
        self.entry, self.who, self.timeout, self.since = entry, who, timeout, time.monotonic()
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - open as long as the process
        self.process = subprocess.Popen([python, __file__, "--child", who, str(entry.file), entry.function], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, cwd=entry.file.parent)

    def answer(self) -> str | None:
        """The next line, or None after noting why there is none."""
        timer = threading.Timer(self.timeout, self.process.kill)
        timer.start()
        try:
            assert self.process.stdout is not None
            line = self.process.stdout.readline().strip()
        finally:
            timed_out = not timer.is_alive()
            timer.cancel()
        self.entry.seconds.setdefault(self.who, []).append(round(time.monotonic() - self.since, 1))
        if line and not line.startswith("failed "):
            return line
        self.entry.failure[self.who] = line.removeprefix("failed ") or (f"more than {self.timeout:.0f} s" if timed_out else self._last_words())
        self.end()
        return None

    def _last_words(self) -> str:
        self.process.wait()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return f"exit {self.process.returncode}" + (f": {lines[-1][:300]}" if lines else "")

    def measure(self) -> None:
        self.since = time.monotonic()
        try:
            assert self.process.stdin is not None
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it died; answer() says of what
        line = self.answer()
        if line is not None:
            self.entry.latency[self.who] = json.loads(line)
        self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run_batch(batch: list[Entry], pythons: dict[str, str], timeout: float) -> None:
    started = [Contestant(entry, who, python, timeout) for entry in batch for who, python in pythons.items()]
    try:
        with ThreadPoolExecutor(len(started)) as pool:
            ready = list(pool.map(lambda one: one.answer() is not None, started))
        for one, is_ready in zip(started, ready):
            if is_ready:
                one.measure()
    finally:
        for one in started:
            one.end()


# -- the table ---------------------------------------------------------------------------------------------------------------------
def table(found: list[Entry]) -> str:
    width = max(len(e.name) for e in found)
    lines = [f"{'entry':{width}} {'ours, ms':>10} {'TileLang':>10} {'ratio':>7}"]
    for e in sorted(found, key=lambda e: -(e.ratio or 0.0)):
        cells = [f"{e.latency[who]:10.4f}" if who in e.latency else f"{'failed' if who in e.failure else '-':>10}" for who in (OURS, PEER)]
        ratio = f"{e.ratio:7.3f}" + (" slow" if e.ratio > SLOW else "") if e.ratio else f"{'-':>7}"
        lines.append(f"{e.name:{width}} {' '.join(cells)} {ratio}")
    return "\n".join(lines)


def summary(found: list[Entry]) -> str:
    ratios = [e.ratio for e in found if e.ratio]
    if not ratios:
        return f"{sum(OURS in e.latency for e in found)} of {len(found)} entries measured; nothing to compare with"
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return (f"geometric mean of ours/TileLang over {len(ratios)} entries: {mean:.3f}; above {SLOW}: {sum(r > SLOW for r in ratios)}; above 1: "
            f"{sum(r > 1 for r in ratios)}; only ours runs: {sum(OURS in e.latency and PEER in e.failure for e in found)}; only TileLang runs: "
            f"{sum(PEER in e.latency and OURS in e.failure for e in found)}")


def record(found: list[Entry]) -> list[dict[str, Any]]:
    return [{"entry": e.name, "ms": e.latency, "failure": e.failure, "ratio": e.ratio, "seconds": e.seconds} for e in found]


def take_reference(found: list[Entry], path: Path) -> None:
    known = {item["entry"]: item["ms"].get(PEER) for item in json.loads(path.read_text(encoding="utf-8"))}
    for e in found:
        if PEER not in e.latency and known.get(e.name):
            e.latency[PEER] = known[e.name]


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        return run_child(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--only", default="", help="entries whose name has one of these texts, comma-separated")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with TileLang")
    parser.add_argument("--reference", type=Path, help="the --json of a run with TileLang, where there is no peer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 4, help="processes that prepare side by side")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for preparing, and for measuring")
    parser.add_argument("--rep", type=float, default=100.0, help="milliseconds each entry is timed, at most")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for everything; entries not begun by then are left out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sources", type=Path, help="keep the CUDA text of the kernels here (their calls take longer then)")
    args = parser.parse_args()
    found = entries(args.tree, [text for text in args.only.split(",") if text])
    if not found:
        print(f"examples_latency: no entry points under {args.tree}", file=sys.stderr)
        return 2
    os.environ[MILLISECONDS] = str(args.rep)
    if args.sources:
        os.environ[SOURCES] = str(args.sources.resolve())
    pythons = {OURS: sys.executable, **({PEER: args.peer} if args.peer else {})}
    size = max(1, args.jobs // len(pythons))
    start = time.monotonic()
    for k in range(0, len(found), size):
        if time.monotonic() - start > args.limit:
            for e in found[k:]:
                e.failure[OURS] = "not begun in time"
            break
        run_batch(found[k:k + size], pythons, args.timeout)
    if args.reference:
        take_reference(found, args.reference)
    print(table(found))
    for e in found:
        for who, why in e.failure.items():
            print(f"{e.name}, {who}: {why}")
    print(summary(found) + f"; {time.monotonic() - start:.0f} s")
    if args.json:
        args.json.write_text(json.dumps(record(found), indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
