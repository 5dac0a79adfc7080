"""Reductions as loops."""
from __future__ import annotations

import math
from typing import Any

from ...ir import dtypes
from ...ir.buffer import LOCAL, Buffer, Region, index_at, tile_axes
from ...ir.build import binary, call, cast, const, const_int
from ...ir.expr import Expr, Load
from ...ir.stmt import Alloc, Body, Store, TileOp
from ..errors import LoweringError
from .context import Context


def accumulator_dtype(dtype: str) -> str:
    """Narrow floats are reduced in float32 and rounded once."""
    return "float32" if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else dtype


def identity(kind: str, dtype: str) -> int | float | bool:
    """The value that leaves every other unchanged."""
    if kind in ("sum", "abssum", "absmax", "bitor", "bitxor"):
        return 0
    if kind == "bitand":
        return True if dtypes.is_bool(dtype) else (-1 if not dtypes.is_unsigned(dtype) else 2 ** dtypes.bits(dtype) - 1)
    if kind == "mul":
        return 1
    if dtypes.is_float(dtype):
        return -math.inf if kind == "max" else math.inf
    bits = dtypes.bits(dtype)
    low, high = (0, 2**bits - 1) if dtypes.is_unsigned(dtype) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if kind == "max" else high


def combine(kind: str, a: Expr, b: Expr, nan: bool = False) -> Expr:
    """Two partial results as one. ``nan``: a NaN on either side is the result; otherwise maxima and minima pass over it."""
    if nan and kind in ("max", "absmax", "min") and dtypes.is_float(a.dtype):
        return call("min_nan" if kind == "min" else "max_nan", (a, b), a.dtype)
    op = {"sum": "add", "mul": "mul", "abssum": "add", "max": "max", "absmax": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor"}
    if kind not in op:
        raise LoweringError(f"reduction of kind {kind!r}", None, "reduce-type")
    return binary(op[kind], a, b)


def lower_reduce(op: TileOp, ctx: Context) -> Body:
    src, dst, kind = op.region("src"), op.region("dst"), op.args["kind"]
    dim = op.args["dim"]
    if not isinstance(dim, int):
        raise LoweringError("the dimension of a reduction is not known", op.span)
    shape = list(src.extents)
    others = [e for i, e in enumerate(shape) if i != dim]
    work = accumulator_dtype(dst.dtype)
    acc = Buffer(f"acc_{ctx.fresh('n').name}", (const(1),), work, LOCAL)

    def one(position: tuple[Expr, ...]) -> Body:
        place = _output_index(dst, position)
        old = cast(ctx.load(dst.buffer, place, op.span), work)
        start = old if op.args["clear"] is False else const(identity(kind, work), work)

        def step(inner: tuple[Expr, ...]) -> Body:
            index = tuple(m + p for m, p in zip(src.mins, (*position[:dim], inner[0], *position[dim:])))
            value = cast(ctx.load(src.buffer, index, op.span), work)
            if kind.startswith("abs"):
                value = call("abs", (value,), work)
            current = Load(work, None, acc, (const(0),))
            return (Store(op.span, acc, (const(0),), combine(kind, current, value, op.args.get("nan_propagate") is True)),)

        result = Load(work, None, acc, (const(0),))
        return (Store(op.span, acc, (const(0),), start), *ctx.loops([shape[dim]], step, op.span, "r"),
                ctx.store(dst.buffer, place, result, op.span))

    return (Alloc(op.span, acc), *ctx.loops(others, one, op.span))


def _output_index(dst: Region, position: tuple[Any, ...]) -> tuple[Expr, ...]:
    """The output either lacks the reduced dimension or keeps it with extent 1."""
    if len(dst.extents) == len(position):
        return tuple(m + p for m, p in zip(dst.mins, position))
    axes = tile_axes(dst)
    if len(axes) == len(position):
        return index_at(dst, position)
    kept = iter(position)
    return tuple(m if const_int(e) == 1 and len(axes) < len(dst.extents) and i not in axes else m + next(kept)
                 for i, (m, e) in enumerate(zip(dst.mins, dst.extents)))
