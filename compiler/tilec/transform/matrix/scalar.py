"""A matrix operation by scalar multiply-adds: any type, any extents, any target."""

from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import FRAGMENT
from ...ir.build import binary, cast, const
from ...ir.expr import Expr, Load, Var
from ...ir.stmt import For, If, Let, Stmt, Store
from .contract import MatrixContext
from .layouts import accumulator_layout, operand_layout, thread_grid
from .metadata import kept_position
from .mma import check_layout
from .shape import MatrixShape


def lower_scalar(shape: MatrixShape, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Without clearing; the caller has done that."""
    check_layout("C", shape, accumulator_layout(shape.op, ctx.threads, ctx.target), ctx)
    for which, operand in (("A", shape.A), ("B", shape.B)):
        if operand.scope == FRAGMENT:
            check_layout(which, shape, operand_layout(shape.op, which, ctx.threads, ctx.target), ctx)
    span = shape.op.span
    down, across = thread_grid(shape.M, shape.N, ctx.threads)
    rows, cols = -(-shape.M // down), -(-shape.N // across)
    i, j, k = (Var("int32", None, name, "loop") for name in ("i", "j", "k"))
    m, n = ctx.thread // across % down + i * down, ctx.thread % across + j * across
    C = ctx.registers_of(shape.C.region.buffer)
    kind = _accumulation_type(C.dtype)
    a = Var(kind, None, "a", "let")
    across_k = k if shape.E is None else Var("int32", None, "kept", "let")
    found = () if shape.E is None else (Let(span, across_k, kept_position(shape, ctx, m, k)),)
    index = i * cols + j
    total = cast(Load(C.dtype, None, C, (index,)), kind) + a * cast(_element("B", shape, ctx, n, across_k, j), kind)
    update: tuple[Stmt, ...] = (Store(span, C, (index,), cast(total, C.dtype)),)
    if shape.N % across:
        update = (If(span, binary("lt", n, const(shape.N)), update),)
    row: tuple[Stmt, ...] = (
        *found,
        Let(span, a, cast(_element("A", shape, ctx, m, k, i), kind)),
        For(span, j, const(0), const(cols), update, "unroll"),
    )
    if shape.M % down:
        row = (If(span, binary("lt", m, const(shape.M)), row),)
    rows_loop = For(span, i, const(0), const(rows), row, "unroll")
    return (For(span, k, const(0), const(shape.stored_k("A")), (rows_loop,)),)


def _accumulation_type(dtype: str) -> str:
    """Sums of narrow floats are formed in float32 and rounded once a step."""
    return "float32" if dtypes.is_float(dtype) and dtypes.bits(dtype) < 32 else dtype


def _element(which: str, shape: MatrixShape, ctx: MatrixContext, outer: Expr, k: Expr, own: Expr) -> Expr:
    """A at (outer, k) or B at (k, outer); ``own`` counts this thread's rows or columns."""
    operand = shape.A if which == "A" else shape.B
    buffer = operand.region.buffer
    if operand.scope == FRAGMENT:
        registers = ctx.registers_of(buffer)
        return Load(buffer.dtype, None, registers, (own * shape.stored_k(which) + k,))
    indices: Any = shape.at(which, outer, k)
    if buffer.is_shared():
        buffer, indices = ctx.shared_element(buffer, indices)
    return Load(buffer.dtype, None, buffer, indices)
