"""Atomic operations on elements and tiles."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import Region
from ...ir.build import call, cast, lift
from ...ir.expr import Expr, Load
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from . import stored
from .elements import to_region
from .operators import emit, match_regions
from .registry import Bound, api

_OPTIONS = "memory_order= return_prev= use_tma= annotations="


def _atomic(kind: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        dst = to_region(b["dst"], b.where("dst"))
        if ev.builder is None or dst is None:
            return unknown(f"T.{b.name}")
        value = b["value"]
        source = to_region(value, b.where("value"))
        options = {"memory_order": b["memory_order"], "use_tma": b.flag("use_tma"), "return_prev": b.flag("return_prev")}
        if dst.form == "element" and (source is None or source.form == "element"):
            return _element(ev, b, kind, dst, value, options)
        if source is None:
            return _whole_tile(ev, b, kind, dst, value, options)
        src, dst = match_regions(source, dst) if source is not None else (None, dst)
        emit(ev, b, "atomic", {"src": src, "dst": dst, "kind": kind, "value": None, **options})
        return unknown(f"T.{b.name}") if options["return_prev"] else None

    return handler


def _whole_tile(ev: Evaluator, b: Bound, kind: str, dst: Region, value: Any, options: dict[str, Any]) -> Any:
    """One value for every element of a tile."""
    assert ev.builder is not None
    value = plain(scalar_operand(value))
    if not isinstance(value, (int, float, Expr)) or options["return_prev"]:
        ev.builder.emit(TileOp(b.span, "unsupported", {"name": f"T.{b.name}", "dst": dst}))
        return unknown(f"T.{b.name}")
    _check_narrowing(ev, b, kind, dst, value)
    literal = lift(value, dst.dtype if not isinstance(value, Expr) and dst.dtype != dtypes.UNKNOWN else None)
    emit(ev, b, "atomic", {"src": None, "dst": dst, "kind": kind, "value": cast(literal, dst.dtype), **options})
    return None


_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")


def _check_order(ev: Evaluator, b: Bound, order: Any, orders: tuple[str, ...] = _ORDERS) -> None:
    """Of an atomic that is a value; those that are statements have a rule."""
    if not isinstance(order, str) or order in orders:
        return
    where = b.nodes.get("memory_order") or b.span
    if order in _ORDERS:
        ev.problem("atomic-memory-order", f"a load cannot be {order!r}: it publishes nothing; its orders are {', '.join(orders)}", where)
    else:
        ev.problem("atomic-memory-order", f"{order!r} is no memory order; there are {', '.join(orders)}", where)


_DONE = {"add": "added to", "max": "compared with", "min": "compared with", "store": "stored to"}


def _check_narrowing(ev: Evaluator, b: Bound, kind: str, dst: Region, value: Any) -> None:
    if kind in _DONE and dtypes.is_int(dst.dtype) and b.span is not None:
        stored.check_narrowing(ev, dst.buffer, value, b.span, _DONE[kind])


def _element(ev: Evaluator, b: Bound, kind: str, dst: Any, value: Any, options: dict[str, Any]) -> Any:
    value = plain(scalar_operand(value))
    if not isinstance(value, (int, float, Expr)):
        value = unknown("value")
    dtype = dst.dtype
    _check_narrowing(ev, b, kind, dst, value)
    literal = lift(value, dtype if not isinstance(value, Expr) and dtype != dtypes.UNKNOWN else None)
    operand = cast(literal, dtype)
    if options["return_prev"] is True:
        _check_order(ev, b, options["memory_order"])
        place = Load(dtype, b.span, dst.buffer, dst.mins)
        return call(f"atomic_{kind}", (place, operand), dtype, b.span, memory_order=options["memory_order"])
    emit(ev, b, "atomic", {"src": None, "dst": dst, "kind": kind, "value": operand, **options})
    return None


for _kind in ("add", "max", "min", "or", "and", "xor"):
    api(f"atomic_{_kind}", f"dst value {_OPTIONS}")(_atomic(_kind))


def _vector(lanes: int) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        dst, src = to_region(b["dst"], b.where("dst")), to_region(b["value"], b.where("value"))
        if ev.builder is None or dst is None or src is None:
            return unknown(f"T.{b.name}")
        if b.flag("return_prev") is True:
            place, value = (Load(r.dtype, b.span, r.buffer, r.mins) for r in (dst, src))
            return call(f"atomic_addx{lanes}", (place, value), f"{dst.dtype}x{lanes}" if dst.dtype != dtypes.UNKNOWN else dtypes.UNKNOWN, b.span)
        emit(ev, b, "atomic", {"src": src, "dst": dst, "kind": f"addx{lanes}", "value": None, "memory_order": None,
                               "return_prev": b.flag("return_prev"), "use_tma": False})
        return None

    return handler


api("atomic_addx2", "dst value return_prev= annotations=")(_vector(2))
api("atomic_addx4", "dst value return_prev= annotations=")(_vector(4))


@api("atomic_load", "src memory_order=")
def atomic_load(ev: Evaluator, b: Bound) -> Any:
    src = to_region(b["src"], b.where("src"))
    if ev.builder is None or src is None or src.form != "element":
        return unknown("T.atomic_load")
    _check_order(ev, b, b["memory_order"], LOAD_ORDERS)
    return call("atomic_load", (Load(src.dtype, b.span, src.buffer, src.mins),), src.dtype, b.span, memory_order=b["memory_order"])


@api("atomic_store", "dst src memory_order=")
def atomic_store(ev: Evaluator, b: Bound) -> Any:
    dst = to_region(b["dst"], b.where("dst"))
    if ev.builder is None or dst is None or dst.form != "element":
        return unknown("T.atomic_store")
    b.values["value"] = b["src"]
    return _element(ev, b, "store", dst, b["src"], {"memory_order": b["memory_order"], "use_tma": False, "return_prev": False})
