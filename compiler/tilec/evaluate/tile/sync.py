"""Synchronisation: barriers, mbarriers, fences, asynchronous groups; printing and assertions."""
from __future__ import annotations

from typing import Any

from ...ir.expr import Expr
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .elements import to_region
from .operators import emit, regions
from .registry import Bound, api


def _plain(op: str, *names: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        if ev.builder is not None:
            emit(ev, b, op, {n: plain(scalar_operand(b[n])) for n in names})
        return None

    return handler


api("sync_threads", "barrier_id= arrive_count=")(_plain("sync_threads", "barrier_id", "arrive_count"))
api("sync_warp", "mask=")(_plain("sync_warp"))
api("sync_grid", "")(_plain("sync_grid"))
api("ptx_wait_group", "count=")(_plain("ptx_wait_group", "count"))
api("cp_async_wait_group", "count=")(_plain("ptx_wait_group", "count"))
api("ptx_commit_group", "")(_plain("ptx_commit_group"))
api("wait_wgmma", "count=")(_plain("wait_wgmma", "count"))
api("fence_proxy_async", "*args")(_plain("fence_proxy_async"))


@api("set_max_nreg", "reg_count is_inc")
def set_max_nreg(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is not None:
        emit(ev, b, "set_max_nreg", {"count": plain(b["reg_count"]), "increase": plain(b["is_inc"])})
    return None


@api("mbarrier_wait_parity", "mbarrier parity")
def mbarrier_wait_parity(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "mbarrier")
    if found is not None:
        parity = plain(scalar_operand(b["parity"]))
        parity = int(parity) if isinstance(parity, bool) else parity
        emit(ev, b, "mbarrier_wait_parity", {"mbar": found[0], "parity": parity if isinstance(parity, (int, Expr)) else unknown("parity")})
    return None


@api("barrier_wait", "mbarrier parity")
def barrier_wait(ev: Evaluator, b: Bound) -> Any:
    return mbarrier_wait_parity(ev, b)


@api("mbarrier_arrive", "mbarrier cta_id=")
def mbarrier_arrive(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "mbarrier")
    if found is not None:
        emit(ev, b, "mbarrier_arrive", {"mbar": found[0], "count": 1, "cta_id": plain(b["cta_id"])})
    return None


@api("barrier_arrive", "mbarrier cta_id=")
def barrier_arrive(ev: Evaluator, b: Bound) -> Any:
    return mbarrier_arrive(ev, b)


@api("mbarrier_expect_tx", "mbarrier tx")
def mbarrier_expect_tx(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "mbarrier")
    if found is not None:
        emit(ev, b, "mbarrier_expect_tx", {"mbar": found[0], "bytes": plain(scalar_operand(b["tx"]))})
    return None


@api("deallocate_tmem", "buffer")
def deallocate_tmem(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "buffer")
    if found is not None:
        emit(ev, b, "deallocate_tmem", {"buffer": found[0]})
    return None


@api("print", "obj msg= warp_group_id= warp_id=")
def print_value(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is None:
        return None
    source = to_region(b["obj"], b.where("obj"))
    value = None if source is not None and source.form != "element" else plain(scalar_operand(b["obj"]))
    if source is None and not isinstance(value, (int, float, Expr)):
        return None
    whole = source if source is not None and source.form != "element" else None
    ev.builder.emit(TileOp(b.span, "print", {"src": whole, "value": value, "message": b["msg"]}, b.spans()))
    return None


@api("device_assert", "condition msg= no_stack_info=")
def device_assert(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is not None:
        value = plain(scalar_operand(b["condition"]))
        emit(ev, b, "device_assert", {"condition": value if isinstance(value, (bool, int, Expr)) else unknown("condition"), "message": b["msg"]})
    return None
