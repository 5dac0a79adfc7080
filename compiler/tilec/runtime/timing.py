"""Latency: median, 20th and 80th percentile of repeated calls."""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..records import dataclass

CPU_SECONDS = 2.0  # spent at most on measuring, however many repetitions were asked for
GPU_SECONDS = 4.0


@dataclass(frozen=True)
class Latency:
    """Milliseconds."""

    median: float
    p20: float
    p80: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


def summarise(milliseconds: list[float]) -> Latency:
    ordered = sorted(milliseconds)
    return Latency(quantile(ordered, 0.5), quantile(ordered, 0.2), quantile(ordered, 0.8))


def quantile(ordered: list[float], fraction: float) -> float:
    """Of values in ascending order, between the two nearest."""
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def measure_cpu(call: Callable[[], Any], warmup: int, repeat: int) -> Latency:
    return summarise(times_cpu(call, warmup, repeat))


def times_cpu(call: Callable[[], Any], warmup: int, repeat: int) -> list[float]:
    deadline = time.perf_counter() + CPU_SECONDS
    for _ in range(warmup):
        if time.perf_counter() > deadline:
            break
        call()
    taken: list[float] = []
    while len(taken) < max(repeat, 1) and (not taken or time.perf_counter() < deadline):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def measure_cuda(call: Callable[[], Any], warmup: int, repeat: int) -> Latency:
    """By CUDA events, with the level-2 cache overwritten before each call: inputs come from device memory, as they would in use."""
    import torch

    cache = torch.empty(2 * _l2_bytes(torch), dtype=torch.uint8, device="cuda")
    deadline = time.perf_counter() + GPU_SECONDS
    for _ in range(warmup):
        call()
    torch.cuda.synchronize()
    taken: list[float] = []
    while len(taken) < max(repeat, 1) and (not taken or time.perf_counter() < deadline):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        cache.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end))
    return summarise(taken)


def _l2_bytes(torch: Any) -> int:
    size = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0)
    return max(int(size), 32 << 20)
