"""The lowering to loops: launches to loops over blocks, tile operators to loops over tiles."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...analysis.guards import inside
from ...ir.buffer import BARRIER, CLUSTER_BARRIER, GLOBAL, VAR
from ...ir.build import const, const_int, lift
from ...ir.expr import Call, Expr, Unknown, walk
from ...ir.ops import OPS
from ...ir.program import TileProgram
from ...ir.stmt import (
    Alloc,
    Body,
    Evaluate,
    For,
    If,
    Jump,
    Launch,
    Let,
    Parallel,
    Stmt,
    Store,
    TileOp,
    While,
    expressions,
)
from ...ir.stmt import walk as walk_statements
from ..errors import LoweringError
from .context import Context
from .matrix import lower_gemm
from .reduce import lower_reduce
from .threads import loops_over_threads
from .tiles import atomic_call, lower_atomic, lower_copy, lower_dp4a, lower_fill, lower_im2col, lower_scan, lower_transpose

OPERATORS: dict[str, Any] = {
    "copy": lower_copy, "async_copy": lower_copy, "tma_copy": lower_copy, "im2col": lower_im2col, "transpose": lower_transpose, "fill": lower_fill, "clear": lower_fill,
    "gemm": lower_gemm, "tcgen05_gemm": lower_gemm, "wgmma_gemm": lower_gemm,
    "gemm_sp": lower_gemm, "wgmma_gemm_sp": lower_gemm, "tcgen05_gemm_sp": lower_gemm, "reduce": lower_reduce, "cumsum": lower_scan, "cummax": lower_scan,
    "atomic": lower_atomic, "dp4a": lower_dp4a,
}
WITHOUT_EFFECT = {name for name, spec in OPS.items() if spec.sync} | {"annotate", "print"}


def lower_to_loops(program: TileProgram) -> TileProgram:
    """A program of loops, stores and scalar expressions only. Raises LoweringError for what the CPU cannot run."""
    ctx = Context()
    workspaces = [s for s in walk_statements(program.body) if _is_workspace(s)]
    body: list[Stmt] = [_checked_workspace(s) for s in workspaces]
    for statement in program.body:
        body += _statement(statement, ctx, program)
    return replace(program, body=tuple(body))


def _is_workspace(s: Stmt) -> bool:
    return isinstance(s, Alloc) and s.buffer.scope == GLOBAL and s.buffer.view_of is None


def _checked_workspace(s: Any) -> Stmt:
    """Memory of the whole program, made once."""
    if "pointer" in s.buffer.attrs:
        raise LoweringError(f"{s.buffer.name} is made from a pointer, which runs on a GPU only (choose a CUDA target), or pass it as a tensor", s.span,
                            "unsupported")
    if s.buffer.static_shape() is None:
        raise LoweringError(f"{s.buffer.name} has an extent that is not a constant", s.span, "alloc-symbolic")
    return s


def _body(statements: Body, ctx: Context, program: TileProgram) -> Body:
    out: list[Stmt] = []
    for statement in statements:
        out += _statement(statement, ctx, program)
    return tuple(out)


def _statement(s: Stmt, ctx: Context, program: TileProgram) -> Body:
    handler = _HANDLERS.get(type(s))
    if handler is None:
        raise LoweringError(f"{type(s).__name__} is not supported on the CPU", s.span)
    return handler(s, ctx, program)


# -- structure -------------------------------------------------------------------------------------------------------------
def _launch(s: Launch, ctx: Context, program: TileProgram) -> Body:
    if "source_code" in s.attrs:
        raise LoweringError("this kernel is written in CUDA; it runs on a GPU only (choose a CUDA target)", s.span, "unsupported")
    for extent in s.grid:
        if isinstance(extent, Unknown):
            raise LoweringError("the grid of this kernel is not known; give an instance that fixes the kernel's parameters", s.span)
    ctx.safe_values = {b: lift(v, b.dtype) for b, v in s.attrs.get("safe_values", {}).items() if isinstance(v, (int, float, Expr))}
    s = loops_over_threads(s)
    grid = tuple(ctx.expression(e, s.span) for e in s.grid)
    for var, extent in zip(s.block_vars, grid):
        ctx.ranges.set_extent(var, extent)
    body = _body(s.body, ctx, program)
    parallel = not _has_global_atomics(s)
    wide = next((i for i, e in enumerate(grid) if const_int(e) != 1), 0)
    for depth, (var, extent) in reversed(list(enumerate(zip(s.block_vars, grid)))):
        kind = "parallel_cpu" if depth == wide and parallel else "serial"
        body = (For(s.span, var, const(0), extent, body, kind),)
    return body


def _has_global_atomics(s: Launch) -> bool:
    for inner in walk_statements(s.body):
        if isinstance(inner, TileOp) and inner.op == "atomic":
            return True
        if any(isinstance(p, Call) and p.op.startswith("atomic_") for e in expressions(inner) for p in walk(e)):
            return True
    return False


def _alloc(s: Alloc, ctx: Context, program: TileProgram) -> Body:
    if s.buffer.scope in (BARRIER, CLUSTER_BARRIER):
        return ()
    if _is_workspace(s):
        return ()  # made at the top
    if s.buffer.view_of is None and s.buffer.static_shape() is None:
        raise LoweringError(f"{s.buffer.name} has an extent that is not a constant", s.span, "alloc-symbolic")
    if s.buffer.scope == VAR and s.buffer.view_of is None:
        return (s, Store(s.span, s.buffer, tuple(const(0) for _ in s.buffer.shape), const(0, s.buffer.dtype)))
    return (s,)


def _let(s: Let, ctx: Context, program: TileProgram) -> Body:
    if isinstance(s.value, Call) and s.value.op.startswith("atomic_") and s.value.op != "atomic_load":
        return atomic_call(s.value, ctx, lambda old: Let(s.span, s.var, old), s.span)
    value = _plain_value(s.value, ctx, s)
    ctx.ranges.set_value(s.var, value)
    return (Let(s.span, s.var, value),)


def _plain_value(e: Expr, ctx: Context, s: Stmt) -> Expr:
    if isinstance(e, Call) and e.op == "atomic_load":
        return ctx.expression(e.args[0], s.span)
    return ctx.expression(e, s.span)


def _store(s: Store, ctx: Context, program: TileProgram) -> Body:
    value = _plain_value(s.value, ctx, s)
    indices = tuple(ctx.expression(i, s.span) for i in s.indices)
    indices = tuple(extent + i if (const_int(i) or 0) < 0 else i for i, extent in zip(indices, s.buffer.shape))
    statement = Store(s.span, s.buffer, indices, value)
    guard = inside(indices, s.buffer.shape, ctx.ranges) if s.buffer.scope == GLOBAL else None
    return (statement,) if guard is None else (If(s.span, guard, (statement,)),)


def _for(s: For, ctx: Context, program: TileProgram) -> Body:
    start, extent = ctx.expression(s.start, s.span), ctx.expression(s.extent, s.span)
    ctx.ranges.set_extent(s.var, extent, start, s.step)
    body = _body(s.body, ctx, program)
    if const_int(start) == 0 and s.step == 1:
        return (For(s.span, s.var, const(0), extent, body),)
    counter = ctx.fresh(s.var.name)
    value = start + counter * s.step
    return (For(s.span, counter, const(0), extent, (Let(s.span, s.var, value), *body)),)


def _parallel(s: Parallel, ctx: Context, program: TileProgram) -> Body:
    extents = tuple(ctx.expression(e, s.span) for e in s.extents)
    for var, extent in zip(s.vars, extents):
        ctx.ranges.set_extent(var, extent)
    body = _body(s.body, ctx, program)
    for var, extent in reversed(list(zip(s.vars, extents))):
        body = (For(s.span, var, const(0), extent, body),)
    return body


def _while(s: While, ctx: Context, program: TileProgram) -> Body:
    return (While(s.span, ctx.expression(s.cond, s.span), _body(s.body, ctx, program)),)


def _if(s: If, ctx: Context, program: TileProgram) -> Body:
    cond = ctx.expression(s.cond, s.span)
    return (If(s.span, cond, _body(s.then, ctx, program), _body(s.other, ctx, program)),)


def _evaluate(s: Evaluate, ctx: Context, program: TileProgram) -> Body:
    if isinstance(s.value, Call) and s.value.op.startswith("atomic_"):
        return atomic_call(s.value, ctx, lambda old: Evaluate(s.span, old), s.span)[1:]
    return (Evaluate(s.span, ctx.expression(s.value, s.span)),)


def _tile_op(s: TileOp, ctx: Context, program: TileProgram) -> Body:
    if s.op in WITHOUT_EFFECT or s.op == "device_assert":
        return ()
    handler = OPERATORS.get(s.op)
    if handler is None:
        name = s.args.get("name") if s.op == "unsupported" else f"T.{s.op}"
        raise LoweringError(f"{name} cannot be compiled for the CPU yet", s.span)
    return handler(_resolve(s, ctx), ctx)


def _resolve(s: TileOp, ctx: Context) -> TileOp:
    """Region bounds with guarded loads."""
    from ...ir.buffer import Region

    args = {}
    for name, value in s.args.items():
        if isinstance(value, Region):
            value = replace(value, mins=tuple(ctx.expression(m, s.span) for m in value.mins),
                            extents=tuple(ctx.expression(e, s.span) for e in value.extents))
        args[name] = value
    return replace(s, args=args)


def _jump(s: Jump, ctx: Context, program: TileProgram) -> Body:
    return (s,)


_HANDLERS: dict[type, Any] = {
    Launch: _launch, Alloc: _alloc, Let: _let, Store: _store, For: _for, Parallel: _parallel, While: _while, If: _if, Evaluate: _evaluate,
    TileOp: _tile_op, Jump: _jump,
}
