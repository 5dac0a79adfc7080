"""Products and attention on a Hopper GPU: this compiler, cuBLAS or cuDNN through torch, and TileLang where it can be imported.

    python benchmarks/hopper.py [--json FILE] [--rows NAME,...] [--rounds 7] [--peer PYTHON] [--top 6]

One program text for both compilers (``hopper_programs.py``), with the tiles listed here: of several the best counts, for each of them. ``tuned`` is
the same text with tiles that ``autotune`` found by itself: the fastest of the ``--top`` first ones in the order of its model; ``model`` the first.

Everything is compiled first, in parallel. Then contestants take turns in short bursts, so that a GPU that warms up slows all of them; the
figure is the median of the rounds. Results are compared with torch's before anything is timed. ``--peer`` names a Python with TileLang: a process
of its own, since both compilers bring a ``tvm``, which measures each row right after this one has.
"""
from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


@dataclass
class Row:
    """``kind``: which program; ``options``: tiles that are tried, the best counts."""

    name: str
    kind: str
    sizes: tuple[Any, ...]
    flops: float
    options: list[dict[str, Any]] = field(default_factory=lambda: [{}])


def gemm(n: int, dtype: str, *options: dict[str, Any]) -> Row:
    return Row(f"gemm-{dtype}-{n}", "gemm", (n, n, n, dtype), 2.0 * n**3, list(options))


def attention(batch: int, length: int, causal: bool) -> Row:
    flops = 4.0 * batch * 32 * length * length * 128 / (2 if causal else 1)
    return Row(f"attention-{batch}x32x{length}x128{'-causal' if causal else ''}", "attention", (batch, 32, length, 128, causal), flops, [{}])


LARGE = {"block_M": 128, "block_N": 256, "block_K": 64, "num_stages": 3, "threads": 256}
SMALL = ({"block_M": 64, "block_N": 128, "block_K": 128, "num_stages": 4, "threads": 128}, {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 6, "threads": 256},
         {"block_M": 128, "block_N": 128, "block_K": 64, "num_stages": 4, "threads": 256}, {"block_M": 128, "block_N": 64, "block_K": 64, "num_stages": 4, "threads": 128})
ROWS = [gemm(8192, "bfloat16", LARGE), gemm(4096, "bfloat16", LARGE), gemm(8192, "float16", LARGE), gemm(1024, "float16", *SMALL), attention(4, 4096, False),
        attention(4, 4096, True), attention(1, 16384, False), attention(1, 16384, True)]


# -- measuring ---------------------------------------------------------------------------------------------------------------------
def burst(call: Callable[[], Any], count: int) -> float:
    """Milliseconds a call."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / count


def captured(call: Callable[[], Any], count: int = 20) -> Callable[[], Any]:
    """Short calls as one graph of many, so that the time to launch them does not count."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay


def race(calls: dict[str, Callable[[], Any]], rounds: int, milliseconds: float = 12.0) -> dict[str, float]:
    import torch

    scale: dict[str, int] = {}
    counts: dict[str, int] = {}
    for name, call in list(calls.items()):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        scale[name] = 1
        if burst(call, 5) < 0.1:
            calls[name], scale[name] = captured(call), 20
        counts[name] = max(2, int(milliseconds / max(burst(calls[name], 3), 1e-3)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(0.01)
            times[name].append(burst(call, counts[name]) / scale[name])
    return {name: statistics.median(t) for name, t in times.items()}


# -- contestants -------------------------------------------------------------------------------------------------------------------
def inputs(row: Row) -> list[Any]:
    import torch

    torch.manual_seed(0)
    if row.kind == "gemm":
        m, n, k, dtype = row.sizes
        return [torch.randn(m, k, device="cuda").to(getattr(torch, dtype)), torch.randn(k, n, device="cuda").to(getattr(torch, dtype))]
    batch, heads, length, dim, _ = row.sizes
    return [torch.randn(batch, length, heads, dim, device="cuda").half() for _ in range(3)]


def torch_calls(row: Row, tensors: list[Any]) -> tuple[dict[str, Callable[[], Any]], Any]:
    """torch's own, by name, and the result to compare with."""
    import torch

    if row.kind == "gemm":
        return {"cuBLAS": lambda: torch.matmul(*tensors)}, torch.matmul(*tensors)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (t.transpose(1, 2).contiguous() for t in tensors)
    causal = row.sizes[-1]

    def with_backend(backend: Any) -> Callable[[], Any]:
        def call() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return call

    calls = {"cuDNN": with_backend(SDPBackend.CUDNN_ATTENTION), "flash": with_backend(SDPBackend.FLASH_ATTENTION)}
    return calls, calls["flash"]().transpose(1, 2)


def kernel_call(row: Row, options: dict[str, Any], tensors: list[Any], wanted: Any) -> Callable[[], Any]:
    """The program compiled by whoever serves ``tilelang`` in this process; compared with torch once."""
    import torch
    from hopper_programs import PROGRAMS

    kernel = PROGRAMS[row.kind](*row.sizes, **options)
    torch.testing.assert_close(kernel(*tensors).float(), wanted.float(), rtol=2e-2, atol=2e-2 * float(wanted.float().abs().max()))
    out = torch.empty_like(wanted).contiguous()
    try:
        kernel(*tensors, out)
    except (TypeError, ValueError):
        return lambda: kernel(*tensors)
    return lambda: kernel(*tensors, out)


def serve(name: str) -> None:
    if name == "ours":
        from tilec.served import install

        install()


# -- compiling ---------------------------------------------------------------------------------------------------------------------
def compiled(who: str, row: Row, options: dict[str, Any]) -> str:
    """In a process of its own: leaves the machine code where the compiler keeps it. What went wrong, or nothing."""
    try:
        serve(who)
        from hopper_programs import PROGRAMS

        kernel = PROGRAMS[row.kind](*row.sizes, **options)
        if who == "ours":
            kernel.build()
    except Exception as error:  # whatever a compiler raises: the tile is left out
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    return ""


def ranked(row: Row, top: int) -> list[dict[str, Any]]:
    """The tiles that the model puts first."""
    serve("ours")
    from hopper_programs import PROGRAMS
    from tilec import autotune

    return [config for config, _ in autotune(top=top)(PROGRAMS[row.kind]).ranked(*row.sizes)[:top]]


def prepare(who: str, rows: list[Row], top: int) -> dict[str, list[dict[str, Any]]]:
    """Compiles all tiles of all rows; the model's tiles by row."""
    with ProcessPoolExecutor(12) as pool:
        chosen = {row.name: pool.submit(ranked, row, top) for row in rows} if who == "ours" and top else {}
        tiles = {name: found.result() for name, found in chosen.items()}
        jobs = {(row.name, str(o)): pool.submit(compiled, who, row, o) for row in rows for o in (*row.options, *tiles.get(row.name, ()))}
        problems = {key: text for key, job in jobs.items() if (text := job.result())}
    for (name, options), text in problems.items():
        print(f"  {who} {name} {options}: {text}", file=sys.stderr)
    for row in rows:
        row.options = [o for o in row.options if (row.name, str(o)) not in problems]
        tiles[row.name] = [o for o in tiles.get(row.name, ()) if (row.name, str(o)) not in problems]
    return tiles


# -- rows --------------------------------------------------------------------------------------------------------------------------
def measure(row: Row, who: str, rounds: int, tuned: list[dict[str, Any]]) -> dict[str, Any]:
    tensors = inputs(row)
    calls, wanted = torch_calls(row, tensors)
    mine = {f"{who} {k}": o for k, o in enumerate(row.options)}
    chosen = {f"tuned {k}": o for k, o in enumerate(tuned)}
    for label, options in {**mine, **chosen}.items():
        calls[label] = kernel_call(row, options, tensors, wanted)
    times = race(calls, rounds)
    best = min(mine, key=lambda label: times[label])
    found = {name: t for name, t in times.items() if name not in mine and name not in chosen}
    result = {"row": row.name, "flops": row.flops, "ms": {**found, who: times[best]}, "tile": mine[best]}
    if chosen:
        fastest = min(chosen, key=lambda label: times[label])
        result["ms"] |= {"tuned": times[fastest], "model": times["tuned 0"]}
        result |= {"tuned tile": chosen[fastest], "model tile": chosen["tuned 0"]}
    return result


class Peer:
    """TileLang in a process of its own: compiles everything when it starts, then measures the rows it is asked for."""

    def __init__(self, python: str, names: list[str], rounds: int) -> None:
        command = [python, __file__, "--rows", ",".join(names), "--rounds", str(rounds), "--as", "TileLang"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ready(self) -> None:
        """Waits until everything is compiled."""
        self._answer()

    def measure(self, name: str) -> dict[str, Any] | None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self._answer()

    def _answer(self) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found = json.loads(line)
                if "error" in found:
                    print(f"  TileLang: {found['error']}", file=sys.stderr)
                    return None
                return found
        return None

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def answer_rows(rows: list[Row], who: str, rounds: int) -> None:
    """The other side of ``Peer``."""
    prepare(who, rows, 0)
    serve(who)
    print("{}", flush=True)
    for line in sys.stdin:
        row = next(r for r in rows if r.name == line.strip())
        try:
            print(json.dumps(measure(row, who, rounds, [])), flush=True)
        except Exception as error:  # whatever that compiler raises: the row has no figure of it
            print(json.dumps({"error": f"{row.name}: {type(error).__name__}: {error}"[:300]}), flush=True)


ROOF = {"gemm": 989.4, "attention": 989.4}  # TFLOP/s of 16-bit elements, by the data sheet


def show(found: dict[str, Any]) -> str:
    rate = {name: found["flops"] / t / 1e9 for name, t in found["ms"].items()}
    parts = [f"{name} {t:.4f} ms {rate[name]:.0f}" for name, t in found["ms"].items()]
    others = [name for name in found["ms"] if name not in ("ours", "tuned", "model")]
    ratios = [f"{mine}/{name} {found['ms'][name] / found['ms'][mine]:.3f}" for mine in ("ours", "tuned") if mine in found["ms"] for name in others]
    roof = ROOF[found["row"].split("-")[0]]
    return f"{found['row']:32} " + "; ".join(parts) + "   " + ", ".join(ratios) + f"   roofline {rate['ours'] / roof:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rows", default="", help="names, comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with TileLang")
    parser.add_argument("--top", type=int, default=6, help="of the model's tiles, how many are measured (0: none)")
    parser.add_argument("--as", dest="who", default="ours", help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = [r for r in ROWS if not args.rows or r.name in args.rows.split(",")]
    if args.who != "ours":
        answer_rows(rows, args.who, args.rounds)
        return 0
    other = Peer(args.peer, [r.name for r in rows], args.rounds) if args.peer else None
    tiles = prepare("ours", rows, args.top)
    serve("ours")
    if other is not None:
        other.ready()
    results = []
    for row in rows:
        found = measure(row, "ours", args.rounds, tiles[row.name])
        theirs = other.measure(row.name) if other is not None else None
        if theirs is not None:
            # Another moment, another temperature: what both processes timed of torch puts the two on one scale.
            shared = next(iter(theirs["ms"]))
            found["ms"]["TileLang"] = theirs["ms"]["TileLang"] * found["ms"][shared] / theirs["ms"][shared]
        results.append(found)
        print(show(found), flush=True)
    if other is not None:
        other.end()
    if args.json:
        import torch

        Path(args.json).write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": results}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
