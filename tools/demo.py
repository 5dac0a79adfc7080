"""The demonstration of `make demo`: every example checked, lowered for CUDA, and run against its reference."""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tilec.build.nvcc import ToolkitError, find_nvcc
from tilec.evaluate import analyse, instantiate
from tilec.pipeline import compile_program
from tilec.source import SourceFile
from tilec.target.chips import find

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TARGETS = ("sm_80", "sm_90a", "sm_100a")


@dataclass
class Row:
    name: str
    checked: str = ""
    lowered: dict[str, str] = field(default_factory=dict)
    run: str = ""
    error: str = ""
    latency: str = ""
    failed: bool = False


def tile_lsp(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line of this environment, as a user would call it."""
    return subprocess.run([sys.executable, "-m", "tile_lsp", *arguments], capture_output=True, text=True, cwd=ROOT, check=False)


def check(row: Row, path: Path) -> None:
    done = tile_lsp("check", str(path))
    row.checked = "ok" if done.returncode == 0 else "faults"
    row.failed |= done.returncode != 0


def targets_of(path: Path) -> tuple[str, ...]:
    """Kernels that use tensor memory exist on Blackwell alone."""
    return ("sm_100a",) if "alloc_tmem" in path.read_text(encoding="utf-8") else TARGETS


def lower(row: Row, path: Path, assemble: bool) -> None:
    analysis = analyse(SourceFile(str(path), path.read_text(encoding="utf-8")))
    kernel = analysis.kernels[0]
    program = instantiate(analysis, kernel, kernel.instances[0])
    for name in targets_of(path):
        try:
            artifact = compile_program(program, find(name))
            artifact.text("cuda")
            row.lowered[name] = "cubin" if assemble and artifact.cubin() else "source"
        except (ToolkitError, Exception) as error:  # noqa: BLE001 - the table tells what failed
            row.lowered[name] = f"failed: {error}"
            row.failed = True


def run(row: Row, path: Path, target: str) -> None:
    done = tile_lsp("run", str(path), "--target", target, "--json")
    try:
        results = json.loads(done.stdout)
    except ValueError:
        row.run, row.failed = (done.stderr.strip() or "no answer")[:80], True
        return
    results = results if isinstance(results, list) else [results]
    bad = next((r for r in results if not r["ok"]), None)
    first = bad or results[0]
    row.run = "correct" if bad is None else (first["error"] or "wrong")[:80]
    row.error = "" if first["max_abs_err"] is None else f"{max(r['max_abs_err'] or 0 for r in results):.2g}"
    row.latency = "" if not first["latency_ms"] else f"{first['latency_ms']['median']:.3g} ms"
    row.failed |= bad is not None


def device() -> str:
    try:
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"
    except ImportError:
        return "cpu"


def legal_on(path: Path, target: str) -> str:
    """Blackwell kernels run on the CPU where the GPU is another one."""
    if target == "cuda" and "alloc_tmem" in path.read_text(encoding="utf-8"):
        import torch

        return "cuda" if torch.cuda.get_device_capability()[0] == 10 else "cpu"
    return target


def main() -> int:
    console = Console()
    files = sorted(EXAMPLES.glob("*.py"))
    assemble = find_nvcc() is not None
    target = device()
    rows: list[Row] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("examples", total=len(files) * 3)
        for path in files:
            row = Row(path.name)
            rows.append(row)
            for what, step in (("check", lambda: check(row, path)), ("lower", lambda: lower(row, path, assemble)),
                               ("run", lambda: run(row, path, legal_on(path, target)))):
                progress.update(task, description=f"{path.name}: {what}")
                step()
                progress.advance(task)
    console.print(table(rows, target, assemble))
    return 1 if any(r.failed for r in rows) else 0


def table(rows: list[Row], target: str, assemble: bool) -> Table:
    how = "compiled by nvcc" if assemble else "lowered to CUDA (no nvcc here)"
    made = Table(title=f"Examples: checked, {how}, run on {target}")
    for name in ("example", "check", *TARGETS, "run", "max error", "latency"):
        made.add_column(name)
    for r in rows:
        cells = [r.lowered.get(t, "-") for t in TARGETS]
        made.add_row(r.name, r.checked, *cells, r.run, r.error, r.latency, style="red" if r.failed else None)
    return made


if __name__ == "__main__":
    sys.exit(main())
