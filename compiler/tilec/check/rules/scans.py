"""Prefix sums and maxima. TileLang 0.1.15, language/scan_op.py."""

from __future__ import annotations

from ...ir.buffer import GLOBAL, LOCAL, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span
from ..registry import rule
from .gemm import known, scope_name, size


@rule("scan-rank", "scan-dim", "scan-shape", "scan-scope")
def scans(ctx: RuleContext):
    for place in ctx.facts.ops("cumsum", "cummax"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if not (isinstance(src, Region) and isinstance(dst, Region)) or ctx.is_blamed(src.buffer, dst.buffer):
            continue
        yield _check(ctx, op, src, dst)


def _check(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    rank, dim = len(src.extents), op.args.get("dim")
    related = (
        (f"{src.buffer.name}: {size(src)}", src.buffer.span),
        (f"{dst.buffer.name}: {size(dst)}", dst.buffer.span),
    )
    if isinstance(dim, int) and not 0 <= dim < rank:
        return ctx.report(
            f"T.{op.op}: {src.buffer.name} has {rank} dimension{'s' if rank != 1 else ''}; dim={dim} does not exist",
            argument_span(op, "dim"),
            name="scan-dim",
        )
    if rank > 2:
        return ctx.report(
            f"T.{op.op} works on one or two dimensions; {src.buffer.name} has {rank}", op.span, name="scan-rank"
        )
    differs = len(dst.extents) != rank or any(
        x is not None and y is not None and x != y
        for x, y in zip(map(const_int, src.extents), map(const_int, dst.extents))
    )
    if differs:
        return ctx.report(
            f"T.{op.op} keeps the shape: {src.buffer.name} is {size(src)}, {dst.buffer.name} is {size(dst)}",
            argument_span(op, "dst"),
            *related,
            name="scan-shape",
        )
    if known(src.dtype, dst.dtype) and src.dtype != dst.dtype:
        return ctx.report(
            f"T.{op.op} keeps the type: {src.buffer.name} is {src.dtype}, {dst.buffer.name} is {dst.dtype}",
            argument_span(op, "dst"),
            *related,
            name="scan-shape",
        )
    bad = next((r for r in (src, dst) if r.buffer.scope in (GLOBAL, LOCAL)), None)
    if bad is not None:
        return ctx.report(
            f"T.{op.op} works on shared memory and fragments; {bad.buffer.name} is in {scope_name(bad.buffer)}",
            op.span,
            name="scan-scope",
        )
    return None
