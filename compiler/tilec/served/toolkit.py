"""``tilelang.contrib.nvcc``: questions about the toolkit and the GPU."""
from __future__ import annotations

from typing import Any

from ..jit.targets import capability, resolve


def get_target_compute_version(target: Any = None) -> str:
    """``9.0`` for this machine's GPU, or of a target. Raises ValueError without either."""
    if target is not None:
        sm = resolve(target).sm
        return f"{sm // 10}.{sm % 10}"
    found = capability()
    if found is None:
        raise ValueError("no GPU is found on this machine")
    return f"{found[0]}.{found[1]}"


def parse_compute_version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def have_fp8(compute_version: str) -> bool:
    return parse_compute_version(compute_version) >= (8, 9)
