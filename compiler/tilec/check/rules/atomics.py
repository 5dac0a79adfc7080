"""Atomic operations. TileLang 0.1.15, language/atomic.py; CUDA C++ Programming Guide, atomic functions."""

from __future__ import annotations

from ...ir import dtypes
from ...ir.buffer import FRAGMENT, Region
from ...ir.expr import Expr, Load, Unknown, Var, has_unknown, walk
from ...ir.stmt import Parallel, TileOp
from ..context import RuleContext
from ..facts import argument_span, static_ints
from ..registry import rule
from .gemm import known, size

ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
STORE_ORDERS = ("relaxed", "release", "seq_cst")


@rule("atomic-memory-order", "atomic-return-prev", "atomic-scalar-only", "atomic-shape", "atomic-dtype", "implicit-narrowing")
def atomics(ctx: RuleContext):
    for place in ctx.facts.ops("atomic"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst, src = op.args["dst"], op.args.get("src")
        if isinstance(dst, Region) and not ctx.is_blamed(dst.buffer):
            yield _check(ctx, op, dst, src if isinstance(src, Region) else None)


def _check(ctx: RuleContext, op: TileOp, dst: Region, src: Region | None):
    kind, order = op.args.get("kind"), op.args.get("memory_order")
    if isinstance(order, str) and order not in ORDERS:
        return ctx.report(
            f"{order!r} is no memory order; there are {', '.join(ORDERS)}",
            argument_span(op, "memory_order"),
            name="atomic-memory-order",
        )
    if kind == "store" and isinstance(order, str) and order not in STORE_ORDERS:
        return ctx.report(
            f"a store cannot be {order!r}: it reads nothing; its orders are {', '.join(STORE_ORDERS)}",
            argument_span(op, "memory_order"),
            name="atomic-memory-order",
        )
    if src is not None and kind in ("add", "max", "min"):
        if op.args.get("return_prev") is True:
            return ctx.report(
                "return_prev works on single elements, not on tiles",
                argument_span(op, "return_prev"),
                name="atomic-return-prev",
            )
        return _shapes(ctx, op, src, dst) or _dtype(ctx, op, dst) or _narrowing(ctx, op, src, dst)
    if src is not None and kind == "or":
        return ctx.report("T.atomic_or works on single elements, not on tiles", op.span, name="atomic-scalar-only")
    return _dtype(ctx, op, dst)


def _shapes(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    a, b = static_ints(src.extents), static_ints(dst.extents)
    if a is None or b is None:
        return None
    # Slices that move with the block are accepted at any extents (TileLang 0.1.15).
    fixed = all(r.form in ("whole", "slice") and static_ints(r.mins) is not None for r in (src, dst))
    if (src.form == dst.form == "whole" and a != b) or (fixed and [e for e in a if e != 1] != [e for e in b if e != 1]):
        return ctx.report(
            f"T.atomic_{op.args['kind']}: {src.buffer.name} is {size(src)}, {dst.buffer.name} is {size(dst)}",
            op.span,
            (f"{src.buffer.name}", src.buffer.span),
            (f"{dst.buffer.name}", dst.buffer.span),
            name="atomic-shape",
        )
    return None


def _dtype(ctx: RuleContext, op: TileOp, dst: Region):
    dtype = dst.dtype
    if (
        not known(dtype)
        or isinstance(op.args.get("kind"), Unknown)
        or op.args.get("kind") not in ("add", "max", "min", "or", "and", "xor")
    ):
        return None
    if dtypes.bits(dtype) < 16 or dtypes.is_bool(dtype):
        return ctx.report(
            f"there is no atomic {op.args['kind']} of {dtype}; atomics work on 16, 32 and 64 bits",
            op.span,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="atomic-dtype",
        )
    if op.args["kind"] == "add" and dtype in ("int16", "uint16") and op.args.get("return_prev") is not True:
        return ctx.report(
            f"there is no atomicAdd of {dtype} in CUDA; add 32-bit integers",
            op.span,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="atomic-dtype",
        )
    if op.args["kind"] in ("or", "and", "xor") and dtypes.is_float(dtype):
        return ctx.report(
            f"T.atomic_{op.args['kind']} combines bits; {dst.buffer.name} is {dtype}",
            op.span,
            (f"{dst.buffer.name}", dst.buffer.span),
            name="atomic-dtype",
        )
    return None


def _narrowing(ctx: RuleContext, op: TileOp, src: Region, dst: Region):
    """A copy converts, and says so by being one; an atomic converts in passing."""
    if not (known(src.dtype) and known(dst.dtype) and dtypes.is_float(src.dtype) and dtypes.is_int(dst.dtype)):
        return None
    return ctx.report(
        f"the {src.dtype} tile {src.buffer.name} is combined with {dst.buffer.name}, which is {dst.dtype}: the fraction is cut off "
        f"(copy it to a tile of {dst.dtype} first if that is meant)",
        op.span,
        (f"{dst.buffer.name}", dst.buffer.span),
        name="implicit-narrowing",
    )


@rule("atomic-scope")
def atomic_scope(ctx: RuleContext):
    """Elements that the iteration chooses stay in their thread, and nvcc makes plain additions of the atomics; those that
    data chooses have no layout (TileLang 0.1.15, layout inference)."""
    for place in ctx.facts.ops("atomic"):
        op = place.stmt
        assert isinstance(op, TileOp)
        dst = op.args["dst"]
        loops = [p for p in place.parents if isinstance(p, Parallel)]
        if not isinstance(dst, Region) or dst.buffer.scope != FRAGMENT or ctx.is_blamed(dst.buffer) or not loops:
            continue
        if any(has_unknown(index) for index in dst.mins):
            continue
        variables = {v for loop in loops for v in loop.vars}
        if any(_is_looked_up(index, variables) for index in dst.mins):
            yield ctx.report(
                f"T.atomic_{op.args['kind']} on the fragment {dst.buffer.name}: registers are private; use a shared or global buffer",
                argument_span(op, "dst"),
                (f"{dst.buffer.name}", dst.buffer.span),
            )


def _is_looked_up(index: Expr, variables: set[Var]) -> bool:
    """Whether an index is read from memory at a place that differs between the iterations."""
    return any(isinstance(e, Load) and any(x in variables for i in e.indices for x in walk(i)) for e in walk(index))


@rule("atomic-tma-target", per_target=True)
def atomic_tma(ctx: RuleContext):
    for place in ctx.facts.ops("atomic"):
        op = place.stmt
        assert isinstance(op, TileOp)
        if op.args.get("src") is None:
            continue  # use_tma is ignored for single elements
        if op.args.get("use_tma") is True and ctx.target and ctx.target.kind == "cuda" and not ctx.target.tma:
            yield ctx.report(
                f"use_tma needs sm_90 or later; {ctx.target.name} has no tensor memory accelerator", op.span
            )
