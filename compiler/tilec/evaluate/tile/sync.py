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


def _renamed(op: str, **names: str) -> Any:
    """Scalar arguments under the operator's names."""
    def handler(ev: Evaluator, b: Bound) -> Any:
        if ev.builder is not None:
            emit(ev, b, op, {target: plain(scalar_operand(b[source])) for source, target in names.items()})
        return None

    return handler


def plain_sync(name: str, op: str | None = None) -> None:
    """An operation without operands."""
    api(name, "")(_plain(op or name))


def barrier_region(b: Bound, name: str) -> Any:
    """A barrier argument; None where it is not given, unknown where it is not known."""
    if b[name] is None:
        return None
    found = to_region(b[name], b.where(name))
    return unknown("barrier") if found is None else found


api("sync_threads", "barrier_id= arrive_count=")(_plain("sync_threads", "barrier_id", "arrive_count"))
api("sync_warp", "mask=")(_plain("sync_warp"))
api("sync_grid", "")(_plain("sync_grid"))
api("ptx_wait_group", "count=")(_plain("ptx_wait_group", "count"))
api("cp_async_wait_group", "count=")(_plain("ptx_wait_group", "count"))
api("ptx_commit_group", "")(_plain("ptx_commit_group"))
api("wait_wgmma", "count=")(_plain("wait_wgmma", "count"))
api("fence_proxy_async", "*args")(_plain("fence_proxy_async"))
api("warpgroup_wait", "num_mma")(_renamed("wait_wgmma", num_mma="count"))
api("named_barrier_arrive", "barrier_id thread_count")(_renamed("named_barrier_arrive", barrier_id="barrier_id", thread_count="arrive_count"))
api("tma_store_wait", "count= read=")(_renamed("tma_store_wait", count="count", read="read"))
for _name in ("pdl_trigger", "pdl_sync", "tma_store_arrive", "warpgroup_arrive", "warpgroup_commit_batch", "tcgen05_before_thread_sync",
              "tcgen05_after_thread_sync"):
    plain_sync(_name)


@api("warpgroup_fence_operand", "buffer_or_ptr offset= num_regs= dtype=")
def warpgroup_fence_operand(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is not None:
        emit(ev, b, "warpgroup_fence_operand", {"operand": to_region(b["buffer_or_ptr"], b.where("buffer_or_ptr"))})
    return None


@api("tcgen05_mma_arrive", "mbar arrive_2cta=")
def tcgen05_mma_arrive(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is not None:
        emit(ev, b, "tcgen05_mma_arrive", {"mbar": barrier_region(b, "mbar"), "arrive_2cta": b.flag("arrive_2cta")})
    return None


@api("cp_async_barrier_noinc", "barrier")
def cp_async_barrier_noinc(ev: Evaluator, b: Bound) -> Any:
    if ev.builder is not None:
        emit(ev, b, "cp_async_barrier_noinc", {"mbar": barrier_region(b, "barrier")})
    return None


for _name, _increase in (("inc_max_nreg", 1), ("dec_max_nreg", 0)):
    def _change_registers(ev: Evaluator, b: Bound, increase: int = _increase) -> Any:
        if ev.builder is not None:
            emit(ev, b, "set_max_nreg", {"count": plain(b["reg_count"]), "increase": increase})
        return None

    api(_name, "reg_count")(_change_registers)


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


@api("mbarrier_arrive_expect_tx", "mbarrier tx")
def mbarrier_arrive_expect_tx(ev: Evaluator, b: Bound) -> Any:
    """Expect, then arrive once."""
    mbarrier_expect_tx(ev, b)
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
    if isinstance(b["obj"], (str, list, tuple, dict)):
        what = "text" if isinstance(b["obj"], str) else f"a {type(b['obj']).__name__}"
        ev.problem("argument-kind", f"T.print shows a buffer or a value of the device, not {what}; text belongs in msg=", b.where("obj"))
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
