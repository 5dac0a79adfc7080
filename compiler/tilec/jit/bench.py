"""Milliseconds of a call on a GPU, by the methods and the counting of ``tilelang.profiler.do_bench`` (0.1.15), so that figures compare.

Before each timed call a buffer larger than the level-2 cache is overwritten. ``event``: CUDA events around each call, which see the gaps between
kernels; ``cupti``: what kernels took on the device, by torch's profiler; ``cudagraph``: replays of a graph of all the calls; ``wall``: the host's clock.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

FLUSH = "tilec::flush"  # what the profiler calls the time that does not count
ESTIMATES = 5
REPLAYS = 10
MODES: dict[str, Callable[[Sequence[float]], float]] = {"mean": statistics.fmean, "median": statistics.median, "min": min, "max": max}


def measure(call: Callable[[], Any], backend: str, warmup: float, rep: float, warmups: int, repeats: int, cache_mb: int) -> list[float]:
    """One figure a call, or one for all where the method gives no more. ``warmup`` and ``rep``: milliseconds spent, unless counts are given."""
    import torch

    methods = {"event": by_events, "cupti": by_profiler, "cudagraph": by_graph, "wall": by_clock}
    if backend not in methods:
        raise ValueError(f"do_bench: there is no backend {backend!r}; known: {', '.join(methods)}")
    call()
    torch.cuda.synchronize()
    cache = torch.empty(cache_mb << 18, dtype=torch.int32, device="cuda")
    cache.zero_()
    torch.cuda.synchronize()
    estimate = max(_estimate(call, cache), 1e-6)
    for _ in range(warmups or max(1, int(warmup / estimate))):
        call()
    return methods[backend](call, cache, repeats or max(1, int(rep / estimate)))


def _estimate(call: Callable[[], Any], cache: Any) -> float:
    """The flush counts here, which keeps the number of calls of a short kernel within bounds."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(ESTIMATES):
        cache.zero_()
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / ESTIMATES


def by_events(call: Callable[[], Any], cache: Any, count: int) -> list[float]:
    import torch

    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
    for start, end in pairs:
        cache.zero_()
        start.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def by_profiler(call: Callable[[], Any], cache: Any, count: int) -> list[float]:
    """All that ran on the device but the flushes, a call. The first half is not recorded: the profiler's start would be in it."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=1, warmup=0, active=1, repeat=1)) as recorded:
        for _ in range(2):
            for _ in range(count):
                with record_function(FLUSH):
                    cache.zero_()
                call()
            torch.cuda.synchronize()
            recorded.step()
    total = 0.0
    for event in recorded.events():
        if getattr(event.device_type, "name", "") != "CUDA":
            continue
        if not event.is_user_annotation:
            total += event.self_device_time_total
        elif event.key == FLUSH:
            total -= event.self_device_time_total
    return [total / count / 1e3]


def by_graph(call: Callable[[], Any], cache: Any, count: int) -> list[float]:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        torch.cuda.synchronize()
        return [t / count for t in by_events(graph.replay, cache, REPLAYS)]


def by_clock(call: Callable[[], Any], cache: Any, count: int) -> list[float]:
    """Launching and waiting included; no flush."""
    import torch

    del cache
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken
