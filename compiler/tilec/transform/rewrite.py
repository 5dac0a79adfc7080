"""Rebuilding expressions and statements with parts exchanged."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..ir.buffer import Buffer, Region
from ..ir.build import binary, call, cast, select, unary
from ..ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary, Var
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Launch, Let, Parallel, Stmt, Store, TileOp, While
from .unit import Unit

ExprRule = Callable[[Expr], "Expr | None"]


def map_expr(e: Expr, rule: ExprRule) -> Expr:
    """``rule`` sees each node, parents first; a result replaces the node as it is, None goes into its children."""
    found = rule(e)
    if found is not None:
        return found
    if isinstance(e, Binary):
        a, b = map_expr(e.a, rule), map_expr(e.b, rule)
        return e if a is e.a and b is e.b else binary(e.op, a, b, e.span)
    if isinstance(e, Unary):
        a = map_expr(e.a, rule)
        return e if a is e.a else unary(e.op, a, e.span)
    if isinstance(e, Cast):
        a = map_expr(e.a, rule)
        return e if a is e.a else cast(a, e.dtype, e.span)
    if isinstance(e, Select):
        parts = [map_expr(x, rule) for x in (e.cond, e.then, e.other)]
        return e if parts[0] is e.cond and parts[1] is e.then and parts[2] is e.other else select(parts[0], parts[1], parts[2], e.span)
    if isinstance(e, Load):
        indices = tuple(map_expr(i, rule) for i in e.indices)
        return e if all(x is y for x, y in zip(indices, e.indices)) else Load(e.dtype, e.span, e.buffer, indices)
    if isinstance(e, Call):
        args = tuple(map_expr(a, rule) if isinstance(a, Expr) else a for a in e.args)
        return e if all(x is y for x, y in zip(args, e.args)) else call(e.op, args, e.dtype, e.span, **(e.attrs or {}))
    return e


def substitute(e: Expr, values: Mapping[Var, Expr]) -> Expr:
    return map_expr(e, lambda x: values.get(x) if isinstance(x, Var) else None)


def map_region(r: Region, rule: ExprRule) -> Region:
    return Region(r.buffer, tuple(map_expr(m, rule) for m in r.mins), tuple(map_expr(e, rule) for e in r.extents), r.form, r.span)


def map_value(value: Any, rule: ExprRule) -> Any:
    if isinstance(value, Expr):
        return map_expr(value, rule)
    return map_region(value, rule) if isinstance(value, Region) else value


def map_own(s: Stmt, rule: ExprRule) -> Stmt:
    """A statement with the expressions it holds itself rewritten; nested statements stay."""
    if isinstance(s, Let):
        return replace(s, value=map_expr(s.value, rule))
    if isinstance(s, Store):
        return replace(s, indices=tuple(map_expr(i, rule) for i in s.indices), value=map_expr(s.value, rule))
    if isinstance(s, For):
        return replace(s, start=map_expr(s.start, rule), extent=map_expr(s.extent, rule))
    if isinstance(s, Parallel):
        return replace(s, extents=tuple(map_expr(e, rule) for e in s.extents))
    if isinstance(s, (While, If)):
        return replace(s, cond=map_expr(s.cond, rule))
    if isinstance(s, Evaluate):
        return replace(s, value=map_expr(s.value, rule))
    if isinstance(s, TileOp):
        return replace(s, args={k: map_value(v, rule) for k, v in s.args.items()})
    if isinstance(s, Launch):
        return replace(s, grid=tuple(map_expr(e, rule) for e in s.grid), threads=tuple(map_expr(e, rule) for e in s.threads))  # type: ignore[arg-type]
    return s


def map_statements(body: Body, rule: ExprRule) -> Body:
    """All expressions of a body rewritten."""
    return tuple(map_children(map_own(s, rule), lambda inner: map_statements(inner, rule)) for s in body)


def map_children(s: Stmt, visit: Callable[[Body], Body]) -> Stmt:
    if isinstance(s, (For, Parallel, While, Launch)):
        return replace(s, body=visit(s.body))
    if isinstance(s, If):
        return replace(s, then=visit(s.then), other=visit(s.other))
    return s


def substitute_body(body: Body, values: Mapping[Var, Expr]) -> Body:
    return map_statements(body, lambda x: values.get(x) if isinstance(x, Var) else None)


def replace_buffers(body: Body, new: Mapping[Buffer, Buffer]) -> Body:
    """Every access to a buffer of ``new`` goes to its replacement, with the same indices."""

    def rule(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in new:
            return Load(e.dtype, e.span, new[e.buffer], tuple(map_expr(i, rule) for i in e.indices))
        return None

    def visit(statements: Body) -> Body:
        out: list[Stmt] = []
        for s in statements:
            s = map_children(map_own(s, rule), visit)
            if isinstance(s, (Alloc, Store)) and s.buffer in new:
                s = replace(s, buffer=new[s.buffer])
            elif isinstance(s, Unit):
                s = replace(s, reads=frozenset(new.get(b, b) for b in s.reads), writes=frozenset(new.get(b, b) for b in s.writes),
                            told=frozenset((new.get(b, b), place) for b, place in s.told), late=frozenset(new.get(b, b) for b in s.late))
            elif isinstance(s, TileOp):
                s = replace(s, args={k: replace(v, buffer=new[v.buffer]) if isinstance(v, Region) and v.buffer in new else v
                                     for k, v in s.args.items()})
            out.append(s)
        return tuple(out)

    return visit(body)
