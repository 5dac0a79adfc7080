"""Defects of T.cumsum and T.cummax."""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.buffer import FRAGMENT, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ...source.span import Span
from ..context import RuleContext


def part_of_tile(ctx: RuleContext) -> Iterator[Span | None]:
    """Two-dimensional, narrower than its shared tile."""
    for op, src, _ in _scans(ctx):
        width, pitch = const_int(src.extents[-1]), const_int(src.buffer.shape[-1])
        rows = const_int(src.extents[-2]) if len(src.extents) == 2 else None
        if src.buffer.is_shared() and rows is not None and rows > 1 and width is not None and pitch is not None and width < pitch:
            yield op.span


def into_fragment(ctx: RuleContext) -> Iterator[Span | None]:
    for op, src, dst in _scans(ctx):
        if src.buffer.is_shared() and dst.buffer.scope == FRAGMENT:
            yield op.span


def _scans(ctx: RuleContext) -> Iterator[tuple[TileOp, Region, Region]]:
    for place in ctx.facts.ops("cumsum", "cummax"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args.get("src"), op.args.get("dst")
        if isinstance(src, Region) and isinstance(dst, Region):
            yield op, src, dst
