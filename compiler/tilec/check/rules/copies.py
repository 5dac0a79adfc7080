"""Copies. TileLang 0.1.15, language/copy_op.py, cuda/language/copy_op.py."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT, GLOBAL, LOCAL, SHARED, SHARED_DYN, TMEM, VAR, Region
from ...ir.build import const_int
from ...ir.stmt import TileOp
from ..context import RuleContext
from ..facts import argument_span, static_ints
from ..registry import rule
from .gemm import scope_name, size

INSTRUCTIONS = ("tma", "cp_async", "sync")
POLICIES = ("evict_normal", "evict_first", "evict_last")


@rule("copy-extents", "copy-rank", "tma-rank-match")
def copy_extents(ctx: RuleContext):
    for place in ctx.facts.ops("copy", "async_copy", "tma_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if (
            not (isinstance(src, Region) and isinstance(dst, Region))
            or ctx.is_blamed(src.buffer, dst.buffer)
            or "element" in (src.form, dst.form)
        ):
            continue
        if src.form == dst.form == "whole":
            yield _whole(ctx, op, src, dst)
        elif "corner" not in (src.form, dst.form):
            yield _regions(ctx, op, src, dst)


def _whole(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    related = tuple((f"{r.buffer.name}: {size(r)}", r.buffer.span) for r in (src, dst))
    if len(src.extents) != len(dst.extents):
        return ctx.report(
            f"T.{op.op} of whole buffers of different rank: {src.buffer.name} is {size(src)}, {dst.buffer.name} is "
            f"{size(dst)}",
            op.span,
            *related,
            name="copy-rank",
        )
    if _differ(src, dst):
        hint = f"; for one tile give its corner, such as {src.buffer.name}[i, j]" if src.buffer.scope == GLOBAL else ""
        return ctx.report(
            f"T.{op.op} of whole buffers of different shape: {src.buffer.name} is {size(src)}, {dst.buffer.name} is "
            f"{size(dst)}{hint}",
            op.span,
            *related,
        )
    return None


def _differ(src: Region, dst: Region) -> bool:
    return any(
        x is not None and y is not None and x != y
        for x, y in zip(map(const_int, src.extents), map(const_int, dst.extents))
    )


def _regions(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    """A slice against another region: the extents that are not 1 must be the same."""
    a, b = static_ints(src.extents), static_ints(dst.extents)
    if a is None or b is None or min(a, default=1) < 1 or min(b, default=1) < 1:
        return None
    x, y = [e for e in a if e != 1], [e for e in b if e != 1]
    if x == y:
        return None
    name = "src" if src.form == "slice" else "dst"
    # between global tensors the source's extents are the loop's (0.1.15, every target): a smaller source stays inside
    partial = src.buffer.scope == dst.buffer.scope == GLOBAL and len(x) == len(y) and all(i <= j for i, j in zip(x, y))
    return ctx.report(
        f"T.{op.op}: the source is {size(src)}, the destination {size(dst)}"
        + (f"; {size(src)} elements are copied, the rest of {dst.buffer.name}'s slice is untouched" if partial else ""),
        argument_span(op, name),
        (f"{src.buffer.name}", src.buffer.span),
        (f"{dst.buffer.name}", dst.buffer.span),
        severity="warning" if partial else None,
        name="tma-rank-match" if op.op == "tma_copy" else None,
    )


@rule("single-element-copy")
def single_element(ctx: RuleContext):
    for place in ctx.facts.ops("copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if not (isinstance(src, Region) and isinstance(dst, Region)) or (src.form, dst.form) != ("element", "element"):
            continue
        target = next((r for r in (dst, src) if r.buffer.scope in (SHARED, SHARED_DYN, FRAGMENT) and _is_tile(r)), None)
        origin = all(const_int(m) == 0 for m in target.mins) if target is not None else False
        if target is not None and origin:
            yield ctx.report(
                f"both sides are single elements, so one element is copied and the rest of {target.buffer.name} is "
                "untouched; "
                f"pass {target.buffer.name} itself to copy a tile",
                op.span,
            )


def _is_tile(region: Region) -> bool:
    shape = region.buffer.static_shape()
    return shape is not None and any(e > 1 for e in shape)


@rule("transpose-shape")
def transpose_shape(ctx: RuleContext):
    for place in ctx.facts.ops("transpose"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        a, b = static_ints(src.extents), static_ints(dst.extents)
        if len(src.extents) < 2 or len(dst.extents) < 2:
            yield ctx.report("T.transpose needs at least two dimensions", op.span)
        elif a is not None and b is not None and (a[-1], a[-2]) != (b[-2], b[-1]):
            yield ctx.report(
                f"T.transpose of a {size(src)} tile needs a {a[-1]}x{a[-2]} destination; {dst.buffer.name} is "
                f"{size(dst)}",
                op.span,
                (f"{dst.buffer.name}", dst.buffer.span),
            )


@rule("async-copy-scope")
def async_copy_scope(ctx: RuleContext):
    for place in ctx.facts.ops("async_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        src, dst = op.args["src"], op.args["dst"]
        if src.buffer.scope not in (GLOBAL,) and src.buffer.scope in (SHARED, SHARED_DYN, FRAGMENT, LOCAL, TMEM, VAR):
            yield ctx.report(
                f"T.async_copy copies from global memory; {src.buffer.name} is in {scope_name(src.buffer)}",
                argument_span(op, "src"),
            )
        elif dst.buffer.scope in (GLOBAL, FRAGMENT, LOCAL, TMEM, VAR):
            yield ctx.report(
                f"T.async_copy writes shared memory; {dst.buffer.name} is in {scope_name(dst.buffer)}",
                argument_span(op, "dst"),
            )


@rule("annotation-value", "coalesced-width")
def copy_options(ctx: RuleContext):
    for place in ctx.facts.ops("copy", "async_copy"):
        op = place.stmt
        assert isinstance(op, TileOp)
        width = const_int(op.args.get("coalesced_width"))
        if width is not None and width < 1:
            yield ctx.report(
                f"coalesced_width is {width}; it must be positive",
                argument_span(op, "coalesced_width"),
                name="coalesced-width",
            )
        for name, allowed in (("prefer_instruction", INSTRUCTIONS), ("eviction_policy", POLICIES)):
            value = op.args.get(name)
            if isinstance(value, str) and value not in allowed:
                yield ctx.report(
                    f"{name} is {value!r}; it must be one of {', '.join(allowed)}",
                    argument_span(op, name),
                    name="annotation-value",
                )
