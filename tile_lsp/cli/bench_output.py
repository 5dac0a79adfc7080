"""The results of ``tile-lsp bench`` as a table."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .run_output import _time

_WIDE = 110  # columns of a terminal that holds the spread too
_NAMES = 30  # columns of a kernel's name at least


def show(results: list[dict[str, Any]], has_baseline: bool) -> None:
    console = Console(highlight=False)
    measured = [r for r in results if r.get("latency_ms")]
    if measured:
        devices = sorted({str(r.get("device") or r.get("target")) for r in measured})
        console.print(Text(f"on {', '.join(devices)}", style="dim"))
        console.print(_table(measured, has_baseline, console.width >= _WIDE))
    for r in results:
        if r.get("error"):
            console.print(Text(f"{r['instance']}: {r['error']}", style="red"), soft_wrap=True)


def _table(rows: list[dict[str, Any]], has_baseline: bool, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    columns: dict[str, Callable[[dict[str, Any]], str | Text]] = {
        "kernel": _kernel, "median": lambda r: _time(r["latency_ms"]["median"]), "20 to 80 %": _spread, "TFLOP/s": lambda r: _number(r.get("tflops")),
        "GB/s": lambda r: _number(r.get("gbps")), "roofline": _roofline, "change": _changed, "beside": _beside}
    if not has_baseline:
        del columns["change"]
    if not wide:
        del columns["20 to 80 %"]
    shown = {name: cell for name, cell in columns.items() if any(str(cell(r)) for r in rows)}
    for name in shown:
        table.add_column(name, justify="left" if name in ("kernel", "beside") else "right", overflow="fold", no_wrap=name not in ("kernel", "beside"),
                         min_width=_NAMES if name == "kernel" else None)
    for r in rows:
        table.add_row(*(cell(r) for cell in shown.values()))
    return table


def _kernel(r: dict[str, Any]) -> Text:
    mark, style = ("✗", "red") if not r["ok"] else ("✓", "green") if r.get("against") else (" ", "")
    return Text(mark, style=style) + Text(f" {r['instance']}", style="")


def _spread(r: dict[str, Any]) -> str:
    return f"{_time(r['latency_ms']['p20'])} to {_time(r['latency_ms']['p80'])}"


def _number(value: float | None) -> str:
    return f"{value:.3g}" if value else ""


def _roofline(r: dict[str, Any]) -> str:
    return f"{r['roofline'] * 100:.0f} %" if r.get("roofline") else ""


def _beside(r: dict[str, Any]) -> str:
    """How many times as fast as what it is compared with."""
    if not r.get("against_ms"):
        return ""
    name = "reference" if r["against"] == "reference" else str(r["against"]).split(" (")[0]
    times = r["against_ms"] / r["latency_ms"]["median"]
    return f"{times:.0f} x {name} ({_time(r['against_ms'])})" if times >= 100 else f"{times:.3g} x {name} ({_time(r['against_ms'])})"


def _changed(r: dict[str, Any]) -> str:
    return "" if r["change"] is None else f"{r['change'] * 100:+.0f} %"
