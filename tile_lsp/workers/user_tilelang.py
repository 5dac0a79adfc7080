"""Runs one kernel with the user's own TileLang: started by path with the user's interpreter, so it imports nothing of this project.

Usage: python user_tilelang.py FOLDER. The folder has request.json (path, text, call, kind, outputs, repeat) and inputs.pt (every parameter
in order, outputs filled with zeros); result.pt gets the outputs and the median latency, or error.txt what went wrong.
"""
from __future__ import annotations

import json
import sys
import time
import types
from pathlib import Path


def main(folder: Path) -> None:
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    try:
        _run(folder, request)
    except BaseException as error:  # whatever the user's code or TileLang raises is the answer
        text = " ".join(str(error).split()) or type(error).__name__
        (folder / "error.txt").write_text(f"{type(error).__name__}: {text[:2000].rstrip('.')}{_way_out(error)}", encoding="utf-8")
        raise SystemExit(1) from error


def _way_out(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"; install it in that environment: {sys.executable} -m pip install {(error.name or '').split('.')[0]}"
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_available():
        return f"; its torch ({torch.__version__}) finds no GPU here, which kernels of TileLang need unless they say target=\"c\""
    return ""


def _run(folder: Path, request: dict) -> None:
    import tilelang
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    values = [v.to(device) if isinstance(v, torch.Tensor) else v for v in torch.load(folder / "inputs.pt", weights_only=True)]
    own = folder / Path(request["path"]).name  # the text may not have been saved, and TileLang reads kernels from their files
    own.write_text(request["text"], encoding="utf-8")
    module = types.ModuleType("kernel_file")
    module.__file__ = str(own)
    sys.modules["kernel_file"] = module
    sys.path.insert(0, str(Path(request["path"]).parent))
    exec(compile(request["text"], str(own), "exec"), module.__dict__)
    outputs = request["outputs"]
    inputs = [v for i, v in enumerate(values) if i not in outputs]
    if request["kind"] == "eager":
        kernel = eval(request["function"], module.__dict__)
        arguments, keywords = inputs, request["keywords"]
    else:
        made = eval(request["call"] if request["kind"] == "lazy" else request["function"], module.__dict__)
        is_program = not callable(made) or "prim" in type(made).__name__.lower()  # else a compiled kernel already
        kernel = tilelang.compile(made, out_idx=outputs) if is_program else made
        arguments, keywords = inputs, {}
    found = _call(kernel, arguments, keywords, values, outputs)
    times = []
    for _ in range(request["repeat"]):
        begun = time.perf_counter()
        _call(kernel, arguments, keywords, values, outputs)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) * 1e3)
    torch.save({"outputs": [t.cpu() for t in found], "median_ms": sorted(times)[len(times) // 2] if times else None,
                "version": getattr(tilelang, "__version__", "?")}, folder / "result.pt")


def _call(kernel, inputs: list, keywords: dict, values: list, outputs: list) -> list:
    """A kernel that returns its outputs, or takes them as arguments and fills them in."""
    import torch

    try:
        found = kernel(*inputs, **keywords)
    except (TypeError, ValueError, AssertionError):
        if len(inputs) == len(values):
            raise
        found = None
        kernel(*values, **keywords)
    if found is None:
        return [values[i] for i in outputs]
    return [found] if isinstance(found, torch.Tensor) else list(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
