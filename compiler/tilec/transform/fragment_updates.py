"""Updates of a fragment's elements in T.Parallel whose iterations run in other threads than the element's own.

``y[r, c // 28] += x[r, c]`` reads and writes one element in many iterations. Where the layouts put them into several threads (``parallel`` finds
that out, and the passes start over with the places it names), the loop becomes a reduction: each thread combines its iterations' values in partial
results of its own, those are combined across threads in a fixed order, and the sum is added to the fragment. That needs an operation that may
be taken in any order, and an element that the loop looks at nowhere else.

``T.atomic_add`` and its like on an element of a fragment are the same updates.
"""
from __future__ import annotations

import math
from dataclasses import replace

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, REDUCER, Buffer, Region, whole
from ..ir.build import binary, cast, const
from ..ir.expr import Binary, Cast, Expr, Load, Unary, equal
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Launch, Parallel, Stmt, Store, TileOp, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .rewrite import map_children

_KINDS = {"add": "sum", "sub": "sum", "mul": "mul", "max": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor"}
_ATOMICS = {"add": "add", "max": "max", "min": "min", "or": "bitor", "and": "bitand", "xor": "bitxor"}
_MOST_ELEMENTS = 4096  # of a fragment that each thread keeps partial results of


def fragment_updates(program: TileProgram, ctx: PassContext) -> TileProgram:
    body: list[Stmt] = []
    for s in program.body:
        if isinstance(s, Launch):
            s = replace(s, body=_statements(s.body, ctx))
        body.append(s)
    return replace(program, body=tuple(body))


def _statements(body: Body, ctx: PassContext) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Parallel):
            s = replace(s, body=_plain(s.body))
            out += _reduced(s, ctx) if ctx.racing else [s]
        else:
            out.append(map_children(s, lambda inner: _statements(inner, ctx)))
    return tuple(out)


def _plain(body: Body) -> Body:
    """Atomics on elements of fragments as ordinary updates: registers have one owner."""
    out: list[Stmt] = []
    for s in body:
        dst = s.args.get("dst") if isinstance(s, TileOp) and s.op == "atomic" else None
        if isinstance(dst, Region) and dst.buffer.scope == FRAGMENT:
            assert isinstance(s, TileOp)
            op, value = _ATOMICS.get(str(s.args.get("kind"))), s.args.get("value")
            if op is not None and isinstance(value, Expr) and s.args.get("return_prev") is not True:
                old = Load(dst.buffer.dtype, s.span, dst.buffer, dst.mins)
                out.append(Store(s.span, dst.buffer, dst.mins, binary(op, old, cast(value, dst.buffer.dtype))))
                continue
        out.append(map_children(s, _plain))
    return tuple(out)


# -- reductions ------------------------------------------------------------------------------------------------------------------
def _reduced(loop: Parallel, ctx: PassContext) -> list[Stmt]:
    """The loop with its racing updates as a reduction; the loop itself where there are none, or none that can be reordered."""
    racing = {s.buffer for s in walk_statements(loop.body) if isinstance(s, Store) and s.buffer.scope == FRAGMENT and (s.span, s.buffer.name) in ctx.racing}
    before: list[Stmt] = []
    after: list[Stmt] = []
    for fragment in sorted(racing, key=lambda b: b.name):
        kind = _one_kind(loop, fragment)
        if kind is None:
            continue
        acc = Buffer(ctx.fresh(f"{fragment.name}_part"), fragment.shape, fragment.dtype, REDUCER, fragment.span, attrs={"reducer_op": kind})
        loop = replace(loop, body=_updating(loop.body, fragment, acc))
        ctx.decide(loop.span, f"updates of {fragment.name}", "partial results of each thread, combined behind the loop",
                   "iterations of several threads update one element")
        before += [Alloc(loop.span, acc), TileOp(loop.span, "reducer_init", {"reducer": whole(acc), "value": None})]
        after.append(TileOp(loop.span, "finalize_reducer", {"reducer": whole(acc), "dst": whole(fragment), "onto": True}))
    return [*before, loop, *after]


def _one_kind(loop: Parallel, fragment: Buffer) -> str | None:
    """The operation of all the loop's updates of a fragment; None if they differ, or if it is read or written otherwise."""
    shape = fragment.static_shape()
    if shape is None or math.prod(shape) > _MOST_ELEMENTS:
        return None
    kinds, loads = set(), 0
    for s in walk_statements(loop.body):
        loads += sum(isinstance(e, Load) and e.buffer.storage() is fragment.storage() for x in expressions(s) for e in walk_expr(x))
        if isinstance(s, TileOp) and any(isinstance(v, Region) and v.buffer.storage() is fragment.storage() for v in s.args.values()):
            return None
        if not isinstance(s, Store) or s.buffer.storage() is not fragment.storage():
            continue
        found = update(s)
        if found is None or s.buffer is not fragment:
            return None
        kinds.add(found[0])
        loads -= 1
    return kinds.pop() if len(kinds) == 1 and loads == 0 else None


def update(s: Store) -> tuple[str, Expr] | None:
    """What a store combines its element with, and how: ``y[i] = y[i] + v``. None where the order of such updates could matter by more than rounding."""
    dtype, value = s.buffer.dtype, s.value
    while isinstance(value, Cast):
        if not _same_class(value.dtype, dtype):
            return None
        value = value.a
    if not isinstance(value, Binary) or value.op not in _KINDS or not _same_class(value.dtype, dtype):
        return None
    narrow = dtypes.bits(value.dtype) < dtypes.bits(dtype)
    if narrow or (value.op in ("max", "min") and value.dtype != dtype and dtypes.is_int(dtype)):
        return None
    for own, other in ((value.a, value.b), (value.b, value.a)):
        if _is_own(own, s) and not any(isinstance(e, Load) and e.buffer.storage() is s.buffer.storage() for e in walk_expr(other)):
            if value.op == "sub":
                return ("sum", Unary(other.dtype, other.span, "neg", other)) if own is value.a else None
            return _KINDS[value.op], other
    return None


def _is_own(e: Expr, s: Store) -> bool:
    """Whether an operand is the element that is stored, perhaps in a wider type."""
    while isinstance(e, Cast) and _same_class(e.dtype, s.buffer.dtype) and dtypes.bits(e.dtype) >= dtypes.bits(e.a.dtype):
        e = e.a
    return isinstance(e, Load) and e.buffer is s.buffer and len(e.indices) == len(s.indices) and all(map(equal, e.indices, s.indices))


def _same_class(a: str, b: str) -> bool:
    return (dtypes.is_float(a) and dtypes.is_float(b)) or (dtypes.is_int(a) and dtypes.is_int(b) and dtypes.is_unsigned(a) == dtypes.is_unsigned(b)) or a == b


def _updating(body: Body, fragment: Buffer, acc: Buffer) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Store) and s.buffer is fragment:
            found = update(s)
            assert found is not None
            target = Region(acc, s.indices, tuple(const(1) for _ in s.indices), "element", s.span)
            out.append(TileOp(s.span, "reducer_update", {"target": target, "value": found[1]}))
        else:
            out.append(map_children(s, lambda inner: _updating(inner, fragment, acc)))
    return tuple(out)
