"""Runs of kernels: what is asked of the run worker, and its result in words."""
from __future__ import annotations

from typing import Any

from tilec.records import dataclass

from .document import Document


@dataclass(frozen=True)
class RunResult:
    """The JSON that ``tile-lsp run --json`` prints for one instance, with the text it was run from."""

    data: dict[str, Any]
    document_key: str
    change: float | None = None  # of the latency against the run before, as a share

    @property
    def ok(self) -> bool:
        return bool(self.data.get("ok"))

    def title(self, document: Document) -> str:
        """``✓ max err 4.9e-4 · 0.195 ms · cpu``; says so when the text has been edited since."""
        return summary(self.data) + change_text(self.change if self.data.get("ok") else None) + ("" if document.key == self.document_key else " · edited since")


def summary(data: dict[str, Any]) -> str:
    """One line for a lens."""
    if data.get("error") and not data.get("ok"):
        text = " ".join(str(data["error"]).split())
        return "✗ " + (text if len(text) <= 90 else text[:87] + "...")
    words = []
    if data.get("max_abs_err") is not None:
        words.append(f"max err {_scientific(float(data['max_abs_err']))}")
    latency = (data.get("latency_ms") or {}).get("median")
    if latency is not None:
        words.append(f"{_milliseconds(float(latency))} ms")
    if data.get("tflops"):
        words.append(_rate(float(data["tflops"])))
    elif data.get("gbps"):
        words.append(f"{_short(float(data['gbps']))} GB/s")
    if data.get("roofline"):
        words.append(f"{data['roofline'] * 100:.0f} % of the roofline")
    words.append(str(data.get("device") if str(data.get("target")) != "cpu" and data.get("device") else data.get("target") or "?"))
    return ("✓ " if data.get("ok") else "✗ ") + " · ".join(words)


def change_text(change: float | None) -> str:
    """`` · 12 % faster``; nothing for what is within the spread of measurements."""
    if change is None or abs(change) < 0.03:
        return ""
    return f" · {abs(change) * 100:.0f} % {'slower' if change > 0 else 'faster'}"


def comparison(rows: list[dict[str, Any]]) -> str:
    """Several runs of one kernel against different oracles, one line each."""
    return "\n".join(f"against the {r.get('against') or '?'}: {summary(r)}" for r in rows)


def message(kernel: str, data: dict[str, Any]) -> str:
    """What is shown when a run has ended."""
    instance = data.get("instance") or kernel
    text = f"{instance}: {summary(data)}"
    if data.get("against") and not data.get("error"):
        text += f" (against {data['against']})"
    return text


def details(data: dict[str, Any]) -> str:
    """Everything that is known of a run, as text."""
    lines = [summary(data), ""]
    for key in ("kernel", "instance", "target", "device", "against", "max_abs_err", "max_rel_err", "rtol", "atol", "tflops", "gbps", "smem_bytes", "registers",
                "mean_abs_err", "roofline", "occupancy"):
        if data.get(key) is not None:
            lines.append(f"{key.replace('_', ' ')}: {data[key]}")
    latency = data.get("latency_ms") or {}
    if latency:
        lines.append("latency: " + ", ".join(f"{k} {v:.4g} ms" for k, v in latency.items() if isinstance(v, (int, float))))
    if data.get("error"):
        lines += ["", str(data["error"])]
    return "\n".join(lines)


def _scientific(value: float) -> str:
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return "0" if value == 0 else f"{mantissa}e{int(exponent)}"


def _milliseconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _rate(tflops: float) -> str:
    return f"{_short(tflops)} TFLOP/s" if tflops >= 1 else f"{_short(tflops * 1000)} GFLOP/s"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"
