"""The demonstration of `make demo`: every example checked, lowered for CUDA, and run against its reference.

Runs on the GPU where there is one and on the CPU otherwise; there, instances too large for it are left out. Exit 1 if anything fails.
"""
from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from tilec.build.nvcc import ToolkitError, find_nvcc
from tilec.evaluate import analyse, instantiate
from tilec.ir.buffer import TMEM
from tilec.ir.program import TileProgram
from tilec.pipeline import compile_program
from tilec.runtime.cost import flops, parameter_bytes
from tilec.source import SourceFile
from tilec.target.chips import find
from tilec.transform.errors import LoweringError
from tilec.tvm_compat import TvmError

from tile_lsp.workers.process import Child

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TARGETS = ("sm_80", "sm_90a", "sm_100a")
CPU_FLOPS, CPU_BYTES = 3e9, 64 << 20  # what one call may cost on the CPU
DYNAMIC_EXTENT = 1024  # assumed for extents known only at run time, when that cost is estimated
TIMEOUT = 300.0  # seconds for one run


@dataclass
class Example:
    """One file: its kernel at each of its instances."""

    path: Path
    text: str
    programs: list[TileProgram]

    @property
    def uses_tensor_memory(self) -> bool:
        return any(b.scope == TMEM for b in self.programs[0].buffers())

    @property
    def targets(self) -> tuple[str, ...]:
        """Kernels that use tensor memory exist on Blackwell alone."""
        return ("sm_100a",) if self.uses_tensor_memory else TARGETS


@dataclass
class Row:
    """What the table shows of an example."""

    name: str
    faults: int = 0
    lowered: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def read(path: Path) -> Example:
    text = path.read_text(encoding="utf-8")
    analysis = analyse(SourceFile(str(path), text))
    kernel = analysis.kernels[0]
    return Example(path, text, [instantiate(analysis, kernel, i) for i in kernel.instances])


# -- check -------------------------------------------------------------------------------------------------------------------------
def faults_by_file() -> Counter[str]:
    """What the command line reports for the folder, as a user would call it."""
    done = subprocess.run([sys.executable, "-m", "tile_lsp", "check", str(EXAMPLES), "--output-format", "json"],
                          capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"tile-lsp check failed:\n{done.stderr}")
    return Counter(Path(d["path"]).name for d in json.loads(done.stdout))


# -- lower -------------------------------------------------------------------------------------------------------------------------
def lower(example: Example, row: Row, assemble: bool, pool: ThreadPoolExecutor) -> None:
    """The first instance for each target: CUDA source, and a cubin of it where nvcc is."""
    made = {}
    for name in example.targets:
        try:
            made[name] = compile_program(example.programs[0], find(name))
            made[name].text("cuda")
            row.lowered[name] = "source"
        except (LoweringError, TvmError) as error:
            failed(row, name, f"lowering for {name}: {error}")
    if assemble:
        jobs = {name: pool.submit(made[name].cubin) for name in row.lowered if row.lowered[name] == "source"}
        for name, job in jobs.items():
            try:
                job.result()
                row.lowered[name] = "cubin"
            except ToolkitError as error:
                failed(row, name, f"nvcc for {name}: {error}")


def failed(row: Row, target: str, message: str) -> None:
    row.lowered[target] = "failed"
    row.errors.append(message)


# -- run ---------------------------------------------------------------------------------------------------------------------------
def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def fits(program: TileProgram) -> bool:
    """Whether the CPU answers in a moment."""
    values = dict.fromkeys(program.dynamic, DYNAMIC_EXTENT)
    return flops(program, values) <= CPU_FLOPS and parameter_bytes(program, values, set()) <= CPU_BYTES


async def run(example: Example, row: Row, child: Child, gpu: bool) -> None:
    """Every instance that is not too large, in a child process, against the file's reference function."""
    for program in example.programs:
        if (gpu and not example.uses_tensor_memory) or fits(program):
            request = {"kind": "run", "path": str(example.path), "text": example.text, "instance": program.instance,
                       "target": "auto", "against": "reference", "repeat": 20}
            result = await child.request(request, TIMEOUT)
            result["instance"] = program.instance
            row.runs.append(result)
            if result.get("error") or not result.get("ok"):
                row.errors.append(f"{program.instance}: {result.get('error') or 'the result differs from the reference'}")


# -- all of it ---------------------------------------------------------------------------------------------------------------------
async def demonstrate(advance: Callable[[str], None], files: list[Path], assemble: bool, gpu: bool) -> list[Row]:
    rows = []
    advance("check")
    faults = faults_by_file()
    child = Child()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in files:
            example = read(path)
            row = Row(path.name, faults[path.name])
            if row.faults:
                row.errors.append(f"tile-lsp check reports {row.faults} faults")
            advance(f"{path.name}: lower")
            await asyncio.to_thread(lower, example, row, assemble, pool)
            advance(f"{path.name}: run")
            await run(example, row, child, gpu)
            rows.append(row)
    await child.end()
    return rows


def table(rows: list[Row], assemble: bool, gpu: bool) -> Table:
    how = "compiled by nvcc" if assemble else "lowered to CUDA (there is no nvcc here)"
    made = Table(title=f"Examples: checked, {how}, run on the {'GPU' if gpu else 'CPU'}")
    made.add_column("example", no_wrap=True)
    for name in ("checked", *TARGETS):
        made.add_column(name)
    made.add_column("instance", overflow="fold")
    for name in ("run", "max error", "latency"):
        made.add_column(name, no_wrap=True)
    for row in rows:
        first = [row.name, f"{row.faults} faults" if row.faults else "ok", *(row.lowered.get(t, "-") for t in TARGETS)]
        for number, result in enumerate(row.runs or [{"ok": False, "instance": ""}]):
            made.add_row(*(first if number == 0 else [""] * len(first)), *run_cells(result), style="red" if row.errors else None)
    return made


def run_cells(result: dict[str, Any]) -> list[str]:
    error, latency = result.get("max_abs_err"), result.get("latency_ms")
    arguments = result["instance"].partition("(")[2].rpartition(")")[0]
    return [arguments, "correct" if result.get("ok") else "failed", "" if error is None else f"{error:.2g}",
            "" if not latency else f"{latency['median']:.3g} ms"]


def main() -> int:
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)  # a log file has no width of its own
    files = sorted(EXAMPLES.glob("*.py"))
    assemble, gpu = find_nvcc() is not None, has_gpu()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=2 * len(files) + 1)

        def advance(what: str) -> None:
            progress.update(task, advance=1, description=what)

        rows = asyncio.run(demonstrate(advance, files, assemble, gpu))
    console.print(table(rows, assemble, gpu))
    for row in rows:
        for error in row.errors:
            console.print(f"{row.name}: {error}", style="red", markup=False)
    bad = sum(bool(r.errors) for r in rows)
    console.print(f"{len(rows)} examples, all correct." if not bad else f"{bad} of {len(rows)} examples failed.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
