"""Compile times beside TileLang: the project's examples, compiled by both in one run.

    python benchmarks/compile_time.py --peer PYTHON [--peer-path FOLDER] [--jit] [--rounds 3] [--repeat 5] [--json FILE] [--only gemm,softmax]

PYTHON is an interpreter with TileLang installed (``--peer-path``: in this folder). Each side runs in processes of its own, in turns, all caches off; a
time is that of one call from the Python function to CUDA text in a process that has compiled before, the median over all rounds; no GPU is needed.
``--jit`` goes on to machine code, loads the kernel on this machine's GPU and launches it once: the time until its results are there. Inputs
are made beforehand. ``first`` is the first program of a kind in a new process, imports apart. The aims are geometric means of ours / TileLang
of 0.25, with ``--jit`` 0.35.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
AIM, JIT_AIM = 0.25, 0.35

# Example -> factory, arguments, target. Shapes are those of the examples' own instances.
PROGRAMS: dict[str, tuple[str, tuple[Any, ...], str]] = {
    "gemm": ("matmul", (1024, 1024, 1024, 128, 128, 32), "sm_90a"),
    "elementwise_add": ("add", (1000,), "sm_90a"),
    "softmax": ("softmax", (64, 512), "sm_90a"),
    "rms_norm": ("rms_norm", (64, 512), "sm_90a"),
    "flash_attention": ("flash_attention", (1, 2, 256, 64, True), "sm_90a"),
    "gemv": ("gemv", (256, 512), "sm_90a"),
    "split_k_gemm": ("split_k_matmul", (128, 128, 512), "sm_90a"),
    "dequant_gemm": ("dequant_matmul", (128, 128, 256), "sm_90a"),
    "tcgen05_gemm": ("matmul", (128, 128, 128), "sm_100a"),
    "tcgen05_gemm_explicit": ("matmul", (128, 128, 128), "sm_100a"),
}


# -- in the processes that are measured --------------------------------------------------------------------------------------------
def child(side: str, names: list[str], repeat: int, jit: bool) -> int:
    """Prints the seconds of each call by program, the first one first."""
    if jit:
        return _jit_child(side, names, repeat)
    lower = _our_lower() if side == "ours" else _peer_lower()
    found: dict[str, list[float] | str] = {}
    for name in names:
        factory, arguments, target = PROGRAMS[name]
        module = _load(name)
        times = []
        try:
            for _ in range(repeat + 1):
                start = time.perf_counter()
                text = lower(getattr(module, factory), arguments, target)
                times.append(time.perf_counter() - start)
            assert "__global__" in text
            found[name] = times
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200] if str(error).strip() else ''}"
    print(json.dumps(found))
    return 0


def _jit_child(side: str, names: list[str], repeat: int) -> int:
    if side == "ours":
        from tilec.served.hook import install

        install()
    import tilelang
    import torch

    torch.zeros(1, device="cuda").sum().item()  # the context is there
    found: dict[str, list[float] | str] = {}
    for name in names:
        factory, arguments, _ = PROGRAMS[name]
        make, times, inputs = getattr(_load(name), factory), [], None
        try:
            for _ in range(repeat + 1):
                start = time.perf_counter()
                kernel = tilelang.compile(make.get_tir(*arguments), target="cuda")
                seconds = time.perf_counter() - start
                if inputs is None:
                    inputs = [_tensor(p) for p in kernel.params]  # the outputs as well
                torch.cuda.synchronize()
                start = time.perf_counter()
                kernel(*inputs)
                torch.cuda.synchronize()
                times.append(seconds + time.perf_counter() - start)
            found[name] = times
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200] if str(error).strip() else ''}"
    print(json.dumps(found))
    return 0


def _tensor(parameter: Any) -> Any:
    """A tensor of zeros for a parameter of a kernel of either compiler."""
    import torch

    shape = [_extent(getattr(e, "value", e)) for e in parameter.shape]
    return torch.zeros(shape, dtype=getattr(torch, str(parameter.dtype).rpartition(".")[2]), device="cuda")


def _extent(value: Any) -> int:
    """Of what only a call fixes: something small."""
    return value if isinstance(value, int) else 256


def _load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _our_lower() -> Any:
    from tilec.served.hook import install

    install()
    import tilelang

    return lambda factory, arguments, target: tilelang.lower(factory.get_tir(*arguments), target=f"cuda -arch={target}").kernel_source


def _peer_lower() -> Any:
    import tilelang
    from tilelang.engine.lower import lower

    def run(factory: Any, arguments: tuple[Any, ...], target: str) -> str:
        chosen = tilelang.tvm.target.Target({"kind": "cuda", "arch": target})
        with chosen:
            return lower(factory.get_tir(*arguments), target=chosen).kernel_source

    return run


# -- in the process that compares ----------------------------------------------------------------------------------------------------
def measure(python: str, side: str, names: list[str], repeat: int, jit: bool, path: str | None = None) -> dict[str, Any]:
    environment = {**os.environ, "TILELANG_DISABLE_CACHE": "1"}
    if side == "ours":
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "compiler"), environment.get("PYTHONPATH", "")])
    else:
        environment.pop("PYTHONPATH", None)
        if path is not None:
            environment["PYTHONPATH"] = path
    command = [python, __file__, "--child", side, "--repeat", str(repeat), "--only", ",".join(names), *(["--jit"] if jit else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"compile_time: {python} fails: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def combine(rounds: list[dict[str, Any]], name: str) -> dict[str, float] | str:
    """Milliseconds: the median of calls in a warm process, and of first calls."""
    times = [r[name] for r in rounds]
    failed = next((t for t in times if isinstance(t, str)), None)
    if failed is not None:
        return failed
    return {"warm": statistics.median(t for one in times for t in one[1:]) * 1e3, "first": statistics.median(one[0] for one in times) * 1e3}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", help="a Python with TileLang; without it only our times are shown")
    parser.add_argument("--peer-path", metavar="FOLDER", help="where that Python finds TileLang, if not by itself")
    parser.add_argument("--jit", action="store_true", help="to a kernel that was loaded and launched: needs a GPU")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = [n for n in args.only.split(",") if n] or [n for n, (_, _, target) in PROGRAMS.items() if not args.jit or target == "sm_90a"]
    if args.child:
        return child(args.child, names, args.repeat, args.jit)
    ours, peer = [], []
    for _ in range(args.rounds):
        ours.append(measure(sys.executable, "ours", names, args.repeat, args.jit))
        if args.peer:
            peer.append(measure(args.peer, "peer", names, args.repeat, args.jit, args.peer_path))
    record = {name: {"ours": combine(ours, name), "peer": combine(peer, name) if peer else None} for name in names}
    report(record, JIT_AIM if args.jit else AIM)
    if args.json:
        args.json.write_text(json.dumps(record, indent=1))
    return 0


def report(record: dict[str, Any], aim: float) -> None:
    print(f"{'program':24}{'ours ms':>10}{'TileLang ms':>13}{'ratio':>8}{'first ms':>10}{'first ms':>10}{'ratio':>8}")
    ratios: dict[str, list[float]] = {"warm": [], "first": []}
    for name, row in record.items():
        a, b = row["ours"], row["peer"]
        if isinstance(a, str) or isinstance(b, str):
            print(f"{name:24}  ours: {a if isinstance(a, str) else 'ok'}   TileLang: {b if isinstance(b, str) else 'ok'}")
            continue
        if b is None:
            print(f"{name:24}{a['warm']:10.1f}{'':31}{a['first']:10.1f}")
            continue
        for kind in ratios:
            ratios[kind].append(a[kind] / b[kind])
        print(f"{name:24}{a['warm']:10.1f}{b['warm']:13.1f}{ratios['warm'][-1]:8.2f}{a['first']:10.1f}{b['first']:10.1f}{ratios['first'][-1]:8.2f}")
    if ratios["warm"]:
        means = {kind: math.exp(statistics.fmean(map(math.log, values))) for kind, values in ratios.items()}
        record["geometric_mean"] = means
        print(f"{'geometric mean':24}{'':23}{means['warm']:8.2f}{'':20}{means['first']:8.2f}   (aim {aim})")


if __name__ == "__main__":
    sys.exit(main())
