"""Products and attention on a Hopper GPU: this compiler, cuBLAS or cuDNN through torch, and TileLang where it can be imported.

    python benchmarks/hopper.py [--json FILE] [--rows NAME,...] [--rounds 7] [--peer PYTHON]

One program text for both compilers (``hopper_programs.py``). Contestants take turns in short bursts, so that a GPU that warms up slows all
of them; the figure is the median of the rounds. Results are compared with torch's before anything is timed. ``--peer`` names a Python
with TileLang: it is run for each row in a process of its own, right after that row, since both compilers bring a ``tvm``.
"""
from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
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
            time.sleep(0.02)
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


def measure(row: Row, who: str, rounds: int) -> dict[str, Any]:
    serve(who)
    tensors = inputs(row)
    calls, wanted = torch_calls(row, tensors)
    labels: dict[str, dict[str, Any]] = {}
    for k, options in enumerate(row.options):
        label = who if len(row.options) == 1 else f"{who} {k + 1}"
        labels[label] = options
        calls[label] = kernel_call(row, options, tensors, wanted)
    times = race(calls, rounds)
    best = min(labels, key=lambda label: times[label])
    found = {name: t for name, t in times.items() if name not in labels}
    return {"row": row.name, "flops": row.flops, "ms": {**found, who: times[best]}, "tile": labels[best]}


def peer(python: str, row: Row, rounds: int) -> dict[str, Any] | None:
    done = subprocess.run([python, __file__, "--rows", row.name, "--rounds", str(rounds), "--as", "TileLang"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  TileLang: {(done.stderr.strip().splitlines() or ['failed'])[-1][:200]}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def show(found: dict[str, Any]) -> str:
    rate = {name: found["flops"] / t / 1e9 for name, t in found["ms"].items()}
    parts = [f"{name} {t:.4f} ms {rate[name]:.0f}" for name, t in found["ms"].items()]
    ratios = [f"/{name} {found['ms'][name] / found['ms']['ours']:.3f}" for name in found["ms"] if name != "ours" and "ours" in found["ms"]]
    return f"{found['row']:32} " + "; ".join(parts) + ("   ours" + ", ".join(ratios) if ratios else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rows", default="", help="names, comma-separated (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with TileLang")
    parser.add_argument("--as", dest="who", default="ours", help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = [r for r in ROWS if not args.rows or r.name in args.rows.split(",")]
    results = []
    for row in rows:
        found = measure(row, args.who, args.rounds)
        if args.who != "ours":
            print(json.dumps(found))
            return 0
        other = peer(args.peer, row, args.rounds) if args.peer else None
        if other is not None:
            # Another moment, another temperature: what both processes timed of torch puts the two on one scale.
            shared = next(iter(other["ms"]))
            found["ms"]["TileLang"] = other["ms"]["TileLang"] * found["ms"][shared] / other["ms"][shared]
        results.append(found)
        print(show(found), flush=True)
    if args.json:
        import torch

        Path(args.json).write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": results}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
