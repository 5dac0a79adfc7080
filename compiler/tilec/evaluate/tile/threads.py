"""Thread and block indices."""
from __future__ import annotations

from typing import Any

from ..evaluator import Evaluator
from ..values import plain, unknown
from .registry import Bound, api


@api("get_thread_binding", "dim=")
def get_thread_binding(ev: Evaluator, b: Bound) -> Any:
    dim = plain(b["dim"])
    dim = 0 if dim is None else dim
    if isinstance(dim, int) and not 0 <= dim <= 2:
        ev.problem("thread-binding-dim", f"T.get_thread_binding({dim}): a block has thread dimensions 0, 1 and 2", b.where("dim"))
        return unknown("thread index")
    return _thread(ev, dim)


def _thread(ev: Evaluator, dim: Any) -> Any:
    if ev.builder is None or ev.builder.launch is None or not isinstance(dim, int):
        return unknown("thread index")
    ev.builder.launch.attrs["uses_threads"] = True
    return ev.builder.launch.thread_vars[dim]


@api("get_thread_bindings", "")
def get_thread_bindings(ev: Evaluator, b: Bound) -> Any:
    return [_thread(ev, d) for d in range(3)]


@api("get_block_binding", "dim=")
def get_block_binding(ev: Evaluator, b: Bound) -> Any:
    dim = plain(b["dim"]) or 0
    if ev.builder is None or ev.builder.launch is None or not isinstance(dim, int) or dim >= len(ev.builder.launch.block_vars):
        return unknown("block index")
    return ev.builder.launch.block_vars[dim]


@api("get_block_bindings", "")
def get_block_bindings(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is None or ev.builder.launch is None:
        return unknown("block indices")
    return list(ev.builder.launch.block_vars)


def _single_row(ev: Evaluator) -> Any:
    """threadIdx.x where the block has one row of threads, which makes it the thread's number."""
    from ...ir.build import const_int

    if ev.builder is None or ev.builder.launch is None:
        return None
    threads = ev.builder.launch.threads
    return _thread(ev, 0) if const_int(threads[1]) == 1 and const_int(threads[2]) == 1 else None


@api("get_lane_idx", "warp_size=")
def get_lane_idx(ev: Evaluator, b: Bound) -> Any:
    tx = _single_row(ev)
    return unknown("lane") if tx is None or b["warp_size"] is not None else tx % 32


@api("get_warp_idx", "warp_size=")
def get_warp_idx(ev: Evaluator, b: Bound) -> Any:
    tx = _single_row(ev)
    return unknown("warp") if tx is None or b["warp_size"] is not None else tx // 32


@api("get_warp_idx_sync", "warp_size=")
def get_warp_idx_sync(ev: Evaluator, b: Bound) -> Any:
    return get_warp_idx(ev, b)


def _extent(ev: Evaluator, b: Bound, index: int) -> Any:
    if ev.builder is None or ev.builder.launch is None:
        return unknown("extent")
    return plain(ev.builder.launch.threads[index])


@api("get_thread_extent", "dim=")
def get_thread_extent(ev: Evaluator, b: Bound) -> Any:
    launch = ev.builder.launch if ev.builder is not None else None
    if launch is not None and not launch.attrs.get("explicit_threads"):
        ev.problem("ws-threads", "T.get_thread_extent needs the number of threads: give threads= to T.Kernel", b.span, ("the launch", launch.span))
        return unknown("extent")
    dim = plain(b["dim"]) or 0
    return _extent(ev, b, dim) if isinstance(dim, int) and 0 <= dim <= 2 else unknown("extent")
