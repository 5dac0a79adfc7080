"""What a call of a compiled kernel costs, in microseconds: from ``kernel(a, b, c)`` to the driver's launch, and what part of it is torch's own.

    python benchmarks/call_cost.py [--json FILE] [--rounds 3000]

On a machine with a GPU: the whole call, the driver's launch included, as many calls in a row as fit in the stream's queue. Without one the driver is a
library that launches nothing (``tests/fake_cuda.py``) and CPU tensors stand for the GPU's: what is left is this project's share. The figure is the best
of many short rounds. Rows: 3 and 8 tensors; with the output made by the call (``out_idx``); the CPU target, beside its compiled function alone; a call
with sizes never seen before.
"""
from __future__ import annotations

import argparse
import json
import sys
import tempfile
import timeit
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from tilec.build import launch  # noqa: E402
from tilec.jit import compile  # noqa: E402
from tilec.jit.language import member  # noqa: E402
from tilec.jit.trace import prim_func  # noqa: E402
from tilec.runtime import gpu  # noqa: E402


class _Language:
    prim_func = staticmethod(prim_func)

    def __getattr__(self, name: str) -> Any:
        return member("tilelang.language", name)


T = _Language()
ROWS = T.dynamic("rows")
IN_A_ROW = 100  # fewer than a stream's queue holds


@T.prim_func
def three(A: T.Tensor((ROWS, 64), "float32"), B: T.Tensor((ROWS, 64), "float32"), C: T.Tensor((ROWS, 64), "float32")):
    with T.Kernel(T.ceildiv(ROWS, 4), threads=64) as bx:
        for i, j in T.Parallel(4, 64):
            C[bx * 4 + i, j] = A[bx * 4 + i, j] + B[bx * 4 + i, j]


@T.prim_func
def eight(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32"), D: T.Tensor((4, 64), "float32"),
          E: T.Tensor((4, 64), "float32"), F: T.Tensor((4, 64), "float32"), G: T.Tensor((4, 64), "float32"), H: T.Tensor((4, 64), "float32")):
    with T.Kernel(4, threads=64) as bx:
        for i in T.Parallel(64):
            H[bx, i] = A[bx, i] + B[bx, i] + C[bx, i] + D[bx, i] + E[bx, i] + F[bx, i] + G[bx, i]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3000)
    args = parser.parse_args()
    real = gpu.available()
    load = _loaded if real else _fake()
    if load is None:
        print("neither a GPU nor a C compiler is found on this machine", file=sys.stderr)
        return 1
    rows = [row for function, count in ((three, 3), (eight, 8)) for row in _rows(function, count, load, real, args.rounds)]
    print(f"microseconds a call, {'on ' + torch.cuda.get_device_name() if real else 'with a driver that launches nothing'}")
    for name, tensors, microseconds in rows:
        print(f"{name:<34} {tensors} tensors {microseconds:8.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps([{"row": n, "tensors": t, "microseconds": u} for n, t, u in rows], indent=1) + "\n", encoding="utf-8")
    return 0


def _loaded(function: Any, out_idx: Any = None) -> Any:
    kernel = compile(function, target=gpu.local_target().name, out_idx=out_idx)
    kernel.launcher()
    return kernel


def _fake() -> Any:
    """A function that compiles for a driver that launches nothing."""
    import fake_cuda

    library = fake_cuda.build(Path(tempfile.mkdtemp()))
    if library is None:
        return None
    launch.LIBRARIES, gpu.KIND = (str(library),), "cpu"
    stand_in, torch_ = fake_cuda.FakeTorch(), sys.modules["torch"]

    def load(function: Any, out_idx: Any = None) -> Any:
        kernel = compile(function, target="sm_90a", out_idx=out_idx)
        kernel.artifact._cubin = SimpleNamespace(data=b"", resources={})
        sys.modules["torch"] = stand_in  # type: ignore[assignment]
        try:
            kernel.launcher()
        finally:
            sys.modules["torch"] = torch_
        return kernel

    return load


def _rows(function: Any, count: int, load: Any, real: bool, rounds: int) -> list[tuple[str, int, float]]:
    tensors = [torch.ones(4, 64, device="cuda" if real else "cpu") for _ in range(count)]
    kernel, maker = load(function), load(function, -1)
    rows = [("kernel", kernel, tensors), ("kernel, out_idx=-1", maker, tensors[:-1]), ("torch's part: data_ptr", _pointers(count), tensors)]
    from tilec.runtime.looks import guard_of

    check = guard_of(tensors)
    if check is not None:
        rows.append(("torch's part: dtypes, shapes, ..", check, tensors))
    found = [(name, count, _best(call, given, rounds, real)) for name, call, given in rows]
    if function is three:
        found.append(("sizes never seen before", count, _new_sizes(kernel, real)))
    try:
        on_cpu = compile(function, target="llvm")
        host = on_cpu.artifact.host_callable()
    except ModuleNotFoundError:  # no TVM
        return found
    cpu = [torch.ones(4, 64) for _ in range(count)]
    return [*found, ("CPU target", count, _best(on_cpu, cpu, rounds // 5, False)), ("CPU target, compiled function alone", count, _best(host, cpu, rounds // 5, False))]


def _pointers(count: int) -> Any:
    names = [f"a{i}" for i in range(count)]
    space: dict[str, Any] = {}
    exec(f"def pointers({', '.join(names)}):\n    " + "; ".join(f"{n}.data_ptr()" for n in names), space)
    return space["pointers"]


def _best(call: Any, arguments: list[Any], rounds: int, real: bool) -> float:
    names = {f"a{i}": a for i, a in enumerate(arguments)}
    call(*arguments)
    setup = "wait()" if real else "pass"
    timer = timeit.Timer(f"call({', '.join(names)})", setup, globals={"call": call, "wait": torch.cuda.synchronize, **names})
    return min(timer.repeat(rounds if not real else min(rounds, 300), IN_A_ROW)) / IN_A_ROW * 1e6


def _new_sizes(kernel: Any, real: bool) -> float:
    times = []
    for n in range(5, 400):
        tensors = [torch.ones(n, 64, device="cuda" if real else "cpu") for _ in range(3)]
        times.append(timeit.timeit(lambda tensors=tensors: kernel(*tensors), number=1) * 1e6)
    return sorted(times)[len(times) // 4]


if __name__ == "__main__":
    raise SystemExit(main())
