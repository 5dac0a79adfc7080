"""Prefix sums and maxima along a dimension of a shared tile: a warp a line, 32 elements at a time."""
from __future__ import annotations

from ..ir.build import binary, const, const_int, select
from ..ir.expr import Expr, Load, Var
from ..ir.stmt import Alloc, Body, For, If, Let, Stmt, Store, TileOp
from .context import LaunchState
from .cpu.reduce import identity
from .unit import unit
from .warp import shuffle_from, warp_scan

WARP = 32


def lower_scan(op: TileOp, state: LaunchState) -> list[Stmt]:
    work = op.region("dst").buffer
    shape = [const_int(e) or 1 for e in work.shape]
    dim = op.args["dim"]
    lines = 1
    for k, e in enumerate(shape):
        lines *= e if k != dim else 1
    parallel = state.threads % WARP == 0
    workers = state.threads // WARP if parallel else state.threads
    worker = state.thread // WARP if parallel else state.thread
    turn = Var("int32", None, "turn", "loop")
    line = Var("int32", None, "line", "let")
    inner = _by_warp(op, state, shape, line) if parallel else _by_thread(op, state, shape, line)
    body: Body = (Let(op.span, line, turn * workers + worker),
                  If(op.span, binary("lt", line, const(lines)), inner))
    return [unit((For(op.span, turn, const(0), const(-(-lines // workers)), body),), op.span)]


def _indices(shape: list[int], dim: int, line: Expr, position: Expr) -> tuple[Expr, ...]:
    out: list[Expr] = []
    for k in reversed(range(len(shape))):
        if k == dim:
            out.append(position)
        else:
            out.append(line % shape[k])
            line = line // shape[k]
    return tuple(reversed(out))


def _setup(op: TileOp, state: LaunchState):
    work = op.region("dst").buffer
    kind = "add" if op.op == "cumsum" else "max"
    start = const(identity("sum" if kind == "add" else "max", work.dtype), work.dtype)
    carry = state.temporary_local("carry", 1, work.dtype, op.span)
    return work, kind, start, carry, (const(0),)


def _by_warp(op: TileOp, state: LaunchState, shape: list[int], line: Expr) -> Body:
    work, kind, start, carry, zero = _setup(op, state)
    dim, span = op.args["dim"], op.span
    length = shape[dim]
    lane, step = state.thread % WARP, Var("int32", None, "step", "loop")
    position = Var("int32", None, "position", "let")
    value, total = Var(work.dtype, None, "value", "let"), Var(work.dtype, None, "total", "let")
    place = const(length - 1) - position if op.args.get("reverse") else position
    at = _indices(shape, dim, line, place)
    at = state.shared_element(work, at)[1]
    inside = binary("lt", position, const(length))
    body: Body = (
        Let(span, position, step * WARP + lane),
        Let(span, value, warp_scan(select(inside, Load(work.dtype, None, work, at), start), lane, kind)),
        Let(span, total, binary(kind, Load(work.dtype, None, carry, zero), value)),
        If(span, inside, (Store(span, work, at, total),)),
        Store(span, carry, zero, shuffle_from(total, WARP - 1)),
    )
    return (Alloc(span, carry), Store(span, carry, zero, start), For(span, step, const(0), const(-(-length // WARP)), body))


def _by_thread(op: TileOp, state: LaunchState, shape: list[int], line: Expr) -> Body:
    work, kind, start, carry, zero = _setup(op, state)
    dim, span = op.args["dim"], op.span
    step = Var("int32", None, "step", "loop")
    place = const(shape[dim] - 1) - step if op.args.get("reverse") else step
    at = state.shared_element(work, _indices(shape, dim, line, place))[1]
    update = binary(kind, Load(work.dtype, None, carry, zero), Load(work.dtype, None, work, at))
    body: Body = (Store(span, carry, zero, update), Store(span, work, at, Load(work.dtype, None, carry, zero)))
    return (Alloc(span, carry), Store(span, carry, zero, start), For(span, step, const(0), const(shape[dim]), body))
