"""Block-scaled products in tensor memory. TileLang 0.1.15, cuda/op/gemm; PTX ISA, tcgen05.mma with block scaling."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, LOCAL, SHARED, SHARED_DYN, TMEM, Region
from ...ir.dtypes import UNKNOWN
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span, static_ints
from ..registry import rule

_NEEDED = ("k_start", "sf_a_granularity_k", "sf_b_granularity_k")
_NARROW = ("float8", "float6", "float4")
_PACKED = 128  # scale factors that the helpers move at once


@rule("blockscaled")
def products(ctx: RuleContext):
    for place in ctx.facts.ops("tcgen05_gemm_blockscaled", "gemm_blockscaled"):
        op = place.stmt
        assert isinstance(op, TileOp)
        fault = _fault(op)
        if fault is not None:
            text, argument = fault
            yield ctx.report(f"T.{op.op}: {text}", argument_span(op, argument) if argument else op.span)


def _fault(op: TileOp) -> tuple[str, str] | None:
    """What is wrong, and with which argument ("" for the call)."""
    missing = next((name for name in _NEEDED if op.args.get(name) is None), None)
    if missing is not None:
        return f"{missing} is None; it is needed to find the scale factors of a tile", missing
    if op.region("C").buffer.scope != TMEM:  # the warp instructions of sm_120 have rules of their own
        return None
    for name in ("A", "B"):
        region = op.region(name)
        if region.dtype != UNKNOWN and not region.dtype.startswith(_NARROW):
            return f"{name} is {region.dtype}; block-scaled instructions multiply types of 8, 6 and 4 bits", name
        if region.buffer.scope in (FRAGMENT, LOCAL):
            return f"{name} ({region.buffer.name}) is read from shared memory", name
    for name in ("SFA", "SFB"):
        buffer = op.region(name).buffer
        if buffer.scope in (SHARED, SHARED_DYN, FRAGMENT, LOCAL):
            return f"the scale factors {buffer.name} are read from tensor memory; copy them there by T.tcgen05_cp_warpx4", name
    if op.op == "gemm_blockscaled" and op.args.get("mbar") is None:
        return "into tensor memory it needs mbar=, the barrier its completion arrives on", ""
    return None


@rule("blockscaled")
def helpers(ctx: RuleContext):
    for place in ctx.facts.ops("tcgen05_cp_warpx4", "tcgen05_sf_warp_transpose"):
        op = place.stmt
        source = op.args.get("src") if isinstance(op, TileOp) else None
        extents = static_ints(source.extents) if isinstance(source, Region) else None
        if extents is None or source.form == "element":  # type: ignore[union-attr]
            continue
        total = 1
        for extent in extents:
            total *= extent
        if total % _PACKED:
            name = source.buffer.name  # type: ignore[union-attr]
            yield ctx.report(f"{name} has {total} elements; packed scale factors come in multiples of {_PACKED}", place.stmt.span)
