"""Thread and block indices."""
from __future__ import annotations

from typing import Any

from ...ir.expr import Expr, Unknown
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .clusters import block_extent
from .launch import thread_number
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


def _thread_number(ev: Evaluator) -> Any:
    """The thread's place in its block; None outside of a launch."""
    if ev.builder is None or ev.builder.launch is None:
        return None
    return thread_number(ev)


def _warp_size(b: Bound) -> Any:
    return 32 if b["warp_size"] is None else plain(scalar_operand(b["warp_size"]))


def _part_of_thread(ev: Evaluator, size: Any, remainder: bool, what: str) -> Any:
    number = _thread_number(ev)
    if number is None or isinstance(size, Unknown) or not isinstance(size, (int, Expr)):
        return unknown(what)
    return number % size if remainder else number // size


@api("get_lane_idx", "warp_size=")
def get_lane_idx(ev: Evaluator, b: Bound) -> Any:
    return _part_of_thread(ev, _warp_size(b), True, "lane")


@api("get_warp_idx", "warp_size=")
def get_warp_idx(ev: Evaluator, b: Bound) -> Any:
    return _part_of_thread(ev, _warp_size(b), False, "warp")


@api("get_warp_idx_sync", "warp_size=")
def get_warp_idx_sync(ev: Evaluator, b: Bound) -> Any:
    return get_warp_idx(ev, b)


@api("get_warp_group_idx", "warp_size= warps_per_group=")
def get_warp_group_idx(ev: Evaluator, b: Bound) -> Any:
    warps = 4 if b["warps_per_group"] is None else plain(scalar_operand(b["warps_per_group"]))
    size = _warp_size(b)
    if not isinstance(warps, int) or not isinstance(size, int):
        return unknown("warp group")
    return _part_of_thread(ev, size * warps, False, "warp group")


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


@api("get_thread_extents", "")
def get_thread_extents(ev: Evaluator, b: Bound) -> Any:
    if get_thread_extent(ev, b) is None or ev.builder is None or ev.builder.launch is None:
        return unknown("extents")
    return [_extent(ev, b, d) for d in range(3)]


@api("get_block_extent", "dim=")
def get_block_extent(ev: Evaluator, b: Bound) -> Any:
    return block_extent(ev, plain(b["dim"]) or 0)


@api("get_block_extents", "")
def get_block_extents(ev: Evaluator, b: Bound) -> Any:
    return [block_extent(ev, d) for d in range(3)]
