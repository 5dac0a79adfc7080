"""Lowering of matrix operations to thread programs."""

from __future__ import annotations

from ...ir.buffer import FRAGMENT
from ...ir.build import const, const_value
from ...ir.expr import Expr, Var
from ...ir.stmt import For, If, Stmt, Store, TileOp
from .contract import MatrixContext
from .device import zero
from .explain import explained
from .instruction import plan
from .mma import lower_mma
from .problem import MatrixProblem
from .scalar import lower_scalar
from .shape import MATRIX_OPS, MatrixShape, matrix_shape
from .wgmma import lower_wgmma, starts_from_zero


def lower_matrix_op(op: TileOp, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """``gemm``, ``wgmma_gemm`` or ``tcgen05_gemm``. Threads must have synchronised on A and B before."""
    assert op.op in MATRIX_OPS, op.op
    shape = matrix_shape(op)
    chosen = plan(shape, ctx.threads, ctx.target)
    ctx.decide(op.span, f"T.{op.op}", *explained(shape, chosen, ctx.threads, ctx.target, op))
    if chosen.tcgen05:
        from .tcgen05 import lower_tcgen05

        return lower_tcgen05(shape, ctx)
    if op.op == "tcgen05_gemm" or shape.C.scope != FRAGMENT:
        raise MatrixProblem(
            f"T.{op.op}: C ({shape.C.region.buffer.name}) is in {shape.C.scope} memory; it must be a fragment "
            "(T.alloc_fragment), or tensor memory (T.alloc_tmem) on Blackwell.",
            op.arg_spans.get("C", op.span),
        )
    if chosen.wgmma:
        return (*(() if starts_from_zero(op) else _clear(shape, ctx)), *lower_wgmma(shape, chosen.wgmma, ctx))
    if chosen.mma and chosen.grid:
        return (*_clear(shape, ctx), *lower_mma(shape, chosen.mma, chosen.grid, ctx))
    return (*_clear(shape, ctx), *lower_scalar(shape, ctx))


def _clear(shape: MatrixShape, ctx: MatrixContext) -> tuple[Stmt, ...]:
    """Start from zero if ``clear_accum`` says so: a literal, or a condition known at run time."""
    clear = shape.op.args.get("clear_accum")
    known = const_value(clear)
    if clear is None or (known is not None and not known):
        return ()
    registers = ctx.registers_of(shape.C.region.buffer)
    r = Var("int32", None, "r", "loop")
    loop = For(
        shape.op.span,
        r,
        const(0),
        registers.shape[0],
        (Store(shape.op.span, registers, (r,), zero(registers.dtype)),),
        "unroll",
    )
    if known is not None:
        return (loop,)
    assert isinstance(clear, Expr)
    return (If(shape.op.span, clear, (loop,)),)
