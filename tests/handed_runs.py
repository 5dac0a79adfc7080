"""Runs the fault reports kept beside the project (``../shared/cases/reports``) on this compiler, as a command:

    python tests/handed_runs.py [--target cpu|cuda] [--only NAME] [FOLDER]

Each program with a reference is compiled, run and compared; scenarios must not raise; programs whose check reports an error need
not run. Exits 0 with a word when the folder is absent, 1 if a program is wrong.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from tilec.served import install

install()

import torch  # noqa: E402  (the hook comes first)
from tilec.jit import CompileError, compile  # noqa: E402

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "cases" / "reports"


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(path: Path, case: dict[str, Any], target: str) -> str:
    """``ok``, or what is wrong."""
    expected, run = case["expectation"]["check"]["severity"], case["expectation"]["run"]
    device = "cuda" if target == "cuda" else "cpu"
    try:
        module = load(path)
        if run is None:
            compile(module.factory(), target=target)
            return "ok" if expected in ("warning", "note", "none") else "compiled, though it is wrong"
        if "call" in run:
            module.scenario(device, target)
            return "ok"
        return compared(module, run, device, target)
    except CompileError as error:
        return "ok" if expected in ("error", "error-or-none") and error.diagnostics else f"refused: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def compared(module: Any, run: dict[str, Any], device: str, target: str) -> str:
    kernel = compile(module.factory(), target=target)
    arguments = [a.to(device) if isinstance(a, torch.Tensor) else a for a in module.inputs()]
    wanted = module.reference(*module.inputs())
    kernel(*arguments)
    for i, w in zip(module.OUTPUTS, wanted):
        got = arguments[i].cpu()
        if not torch.allclose(got.double(), w.double(), rtol=run["rtol"], atol=run["atol"], equal_nan=True):
            wrong = ~torch.isclose(got.double(), w.double(), rtol=run["rtol"], atol=run["atol"], equal_nan=True)
            return f"output {i}: {int(wrong.sum())} of {wrong.numel()} elements are wrong"
    return "ok"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    if not (args.folder / "index.json").is_file():
        print(f"{args.folder}: no reports there")
        return 0
    index = json.loads((args.folder / "index.json").read_text())
    cases = [c for c in (index["cases"] if isinstance(index, dict) else index) if args.only in c["file"]]
    bad = 0
    for case in cases:
        if args.target == "cpu" and case["min_target"] not in ("cpu",) and case["expectation"]["run"] is None:
            continue
        found = outcome(args.folder / case["file"], case, args.target)
        bad += found != "ok"
        print(f"{case['file']} [{case['min_target']}]: {found}", flush=True)
    print(f"{len(cases) - bad} of {len(cases)} right on {args.target}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
