"""Copies with a shape of their own: im2col, four-row gathers and scatters, raw bulk copies, dp4a."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer
from ...ir.build import const_int
from ..evaluator import Evaluator
from ..values import plain, unknown
from .operators import emit, regions
from .registry import Bound, api
from .scalar import number
from .sync import barrier_region

_IM2COL = "img col nhw_step c_step kernel stride dilation pad eviction_policy= annotations="


def _im2col(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "img", "col")
    if found is not None:
        more = {n: plain(number(b[n])) for n in ("nhw_step", "c_step", "kernel", "stride", "dilation", "pad")}
        emit(ev, b, "im2col", {"src": found[0], "dst": found[1], **more})
    return None


api("im2col", _IM2COL)(_im2col)
api("c2d_im2col", _IM2COL)(_im2col)


# -- four rows -----------------------------------------------------------------------------------------------------------------
def _four_rows(op: str) -> Any:
    def handler(ev: Evaluator, b: Bound) -> Any:
        found = regions(ev, b, "src", "dst")
        if found is None:
            return None
        if isinstance(b["src"], Buffer) and isinstance(b["dst"], Buffer):
            _check_four_rows(ev, b, op, b["src"], b["dst"])
        if isinstance(b["swizzle"], (str, int)) and b["swizzle"] not in ("none", 0):
            ev.problem("deprecated-api", f"T.{op}(swizzle=...) will go; T.annotate_layout says how the tile is laid out", b.where("swizzle"))
        rows = b["rows"]
        rows = tuple(number(r) for r in rows) if isinstance(rows, (list, tuple)) else unknown("rows")
        args = {"src": found[0], "dst": found[1], "col": number(b["col"]), "rows": rows}
        emit(ev, b, op, {**args, "barrier": barrier_region(b, "barrier")} if op == "tma_gather4" else args)
        return None

    return handler


def _check_four_rows(ev: Evaluator, b: Bound, op: str, src: Buffer, dst: Buffer) -> None:
    """tilelang/language/copy_op.py, 0.1.15: what tma_gather4 and tma_scatter4 refuse."""
    memory, tile = (src, dst) if op == "tma_gather4" else (dst, src)
    memory_name, tile_name = ("src", "dst") if op == "tma_gather4" else ("dst", "src")

    def wrong(name: str, text: str) -> None:
        ev.problem("tma-gather", f"T.{op}: {text}", b.where(name))

    if memory.scope != GLOBAL:
        return wrong(memory_name, f"{memory.name} must be a global tensor")
    if not tile.is_shared():
        return wrong(tile_name, f"{tile.name} must be a shared tile")
    for buffer, name in ((memory, memory_name), (tile, tile_name)):
        if buffer.ndim != 2:
            return wrong(name, f"{buffer.name} has {buffer.ndim} dimension{'s' if buffer.ndim != 1 else ''}; two are needed")
    if dtypes.UNKNOWN not in (src.dtype, dst.dtype) and src.dtype != dst.dtype:
        return wrong("dst", f"{src.name} is {src.dtype}, {dst.name} {dst.dtype}; nothing is converted")
    height = const_int(tile.shape[0])
    if height is not None and height != 4:
        return wrong(tile_name, f"{tile.name} has {height} rows; four are moved at a time")
    inner = const_int(memory.strides[1]) if memory.strides is not None else 1
    if inner is not None and inner != 1:
        return wrong(memory_name, f"the elements of a row of {memory.name} are {inner} apart; they must be adjacent")
    rows = b["rows"]
    if isinstance(rows, (list, tuple)) and len(rows) != 4:
        return wrong("rows", f"{len(rows)} row indices are given; four are moved at a time")
    return None


api("tma_gather4", "src dst col rows * barrier= swizzle= eviction_policy= annotations=")(_four_rows("tma_gather4"))
api("tma_scatter4", "src dst col rows * swizzle= eviction_policy= annotations=")(_four_rows("tma_scatter4"))


# -- dot products of bytes --------------------------------------------------------------------------------------------------------
@api("dp4a", "A B C")
def dp4a(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "A", "B", "C")
    if found is None:
        return None
    for name, region, wanted in zip("ABC", found, ("int8", "int8", "int32")):
        if region.dtype not in (wanted, dtypes.UNKNOWN):
            what = "adds to int32" if name == "C" else "multiplies int8"
            ev.problem("dp4a", f"T.dp4a {what}; {region.buffer.name} is {region.dtype}", b.where(name))
            return None
    emit(ev, b, "dp4a", {"A": found[0], "B": found[1], "C": found[2]})
    return None
