"""The result of a run in the terminal: a table, and a picture of the wrong tiles."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_SHADES = " ░▒▓█"  # share of wrong elements of a cell: none, under 1/4, under 1/2, under all, all


def show(result: dict[str, Any], details: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(Text(result["instance"] or result["kernel"], style="bold"))
    console.print(_table(result))
    mismatch = details.get("mismatch")
    if mismatch is not None:
        console.print()
        for line in picture(mismatch):
            console.print(line)
    if result.get("error"):
        console.print()
        console.print(Text(result["error"], style="red"))
    for fault in details.get("faults", ())[1:6]:
        console.print(Text(fault, style="red"))


def _table(r: dict[str, Any]) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    verdict = Text("correct", style="bold green") if r["ok"] else Text("wrong", style="bold red")
    table.add_row("result", verdict + Text(f" against {_article(r['against'])}", style=""))
    table.add_row("target", f"{r['target']} ({r['device']})" if r.get("device") else str(r["target"]))
    if r.get("max_abs_err") is not None:
        mean = f", {r['mean_abs_err']:.3g} on average" if r.get("mean_abs_err") is not None else ""
        table.add_row("max error", f"{r['max_abs_err']:.3g} absolute, {_number(r.get('max_rel_err'))} relative{mean}")
    if r.get("rtol") is not None:
        table.add_row("allowed", f"{r['atol']:.3g} + {r['rtol']:.3g} × expected" if r["rtol"] or r["atol"] else "none: the values must be equal")
    latency = r.get("latency_ms")
    if latency:
        table.add_row("latency", f"{_time(latency['median'])} median, {_time(latency['p20'])} to {_time(latency['p80'])} (20 to 80 %)")
    rates = [f"{r['tflops']:.3g} TFLOP/s"] if r.get("tflops") else []
    rates += [f"{r['gbps']:.3g} GB/s"] if r.get("gbps") else []
    rates += [f"{r['roofline'] * 100:.0f} % of the roofline"] if r.get("roofline") else []
    if rates:
        table.add_row("rate", ", ".join(rates))
    resources = [f"{r['registers']} registers a thread"] if r.get("registers") else []
    resources += [f"{r['smem_bytes']} bytes of shared memory a block"] if r.get("smem_bytes") is not None else []
    resources += [f"blocks take {r['occupancy'] * 100:.0f} % of a multiprocessor's threads"] if r.get("occupancy") else []
    if resources:
        table.add_row("resources", ", ".join(resources))
    return table


def _article(against: str | None) -> str:
    return {"interpreter": "the tile interpreter", "reference": "the file's reference"}.get(against or "", against or "nothing")


def _number(value: float | None) -> str:
    return "unbounded" if value is None else f"{value:.3g}"


def _time(milliseconds: float) -> str:
    return f"{milliseconds * 1e3:.3g} µs" if milliseconds < 1 else f"{milliseconds:.4g} ms"


def picture(m: dict[str, Any]) -> list[Text]:
    """Where an output is wrong: one character a cell of rows and columns."""
    rows, columns = m["cell"]
    lines = [Text(f"{m['output']} {list(m['shape'])}: each cell is {rows} × {columns} elements, █ wholly wrong, · right", style="dim")]
    for number, row in enumerate(m["wrong_map"]):
        line = Text(f"{number * rows:>7} ", style="dim")
        for share in row:
            line.append(*_cell(share))
        lines.append(line)
    return lines


def _cell(share: float) -> tuple[str, str]:
    if share == 0:
        return "· ", "green"
    level = 4 if share >= 1 else min(1 + int(share * 4), 3)
    return _SHADES[level] * 2, "red"


@contextmanager
def status(path: str) -> Iterator[Callable[[str], None]]:
    """A line that says what is being done, on standard error."""
    console = Console(file=sys.stderr)
    with console.status(f"{path}: starting") as shown:
        yield lambda text: shown.update(f"{path}: {text}")
