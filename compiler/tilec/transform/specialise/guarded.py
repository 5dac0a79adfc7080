"""Loops that leave iterations out: ``for k in T.Pipelined(n): if mask[k]: ...``, as block-sparse products have.

Both sides ask the condition themselves, and only iterations that run count stages, so that rings need not know of the others. A condition on a
fragment or array that only ever holds a piece of a tensor asks the tensor, which the copying warp can do as well.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.buffer import GLOBAL, Buffer, tile_axes
from ...ir.build import const_int
from ...ir.expr import Expr, Load, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Body, For, If, Stmt, Store, TileOp
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ..ahead import accesses
from ..rewrite import map_children, map_expr, substitute

_GUARD = "guard"


def guarded_loops(body: Body) -> Body:
    """Pipelined loops of a kernel whose body is one condition keep the condition beside what is under it."""
    if not any(_is_guarded(s) for s in walk_statements(body)):
        return body
    known = _copies_of_tensors(body)

    def visit(statements: Body, held: dict[Buffer, _Copy]) -> Body:
        out: list[Stmt] = []
        for s in statements:
            if _is_guarded(s):
                assert isinstance(s, For) and isinstance(s.body[0], If)
                s = replace(s, body=s.body[0].then, attrs={**s.attrs, _GUARD: _asked_of_tensors(s.body[0].cond, held)})
            out.append(map_children(s, lambda inner, held=held: visit(inner, held)))  # type: ignore[misc]
            if statements is body:
                held = {**held, **{b: c for b, c in known.items() if c.made_by is s}}
        return tuple(out)

    return visit(body, {})


def _is_guarded(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind == "pipelined" and len(s.body) == 1 and isinstance(s.body[0], If) and not s.body[0].other


def guard_of(s: For) -> Expr | None:
    return s.attrs.get(_GUARD)


def under_guard(s: For, body: Body) -> Body:
    """What an iteration does, if it is not left out."""
    guard = guard_of(s)
    return body if guard is None else (If(s.span, guard, body),)


# -- what holds a piece of a tensor ------------------------------------------------------------------------------------------------
@dataclass(eq=False)
class _Copy:
    """Element ``variables`` of the buffer is ``value`` from ``made_by`` on."""

    made_by: Stmt
    variables: tuple[Var, ...]
    value: Load


def _copies_of_tensors(body: Body) -> dict[Buffer, _Copy]:
    """Buffers that one statement at the top of the kernel writes, as a whole, with elements of a tensor that the kernel does not write."""
    writes: dict[Buffer, int] = {}
    for s in walk_statements(body):
        for b in accesses(s)[1]:
            writes[b.storage()] = writes.get(b.storage(), 0) + 1
    found: dict[Buffer, _Copy] = {}
    for s in body:
        made = _by_copy(s) or _by_loop(s)
        if made is None:
            continue
        b, copy = made
        source = copy.value.buffer
        if (writes.get(b) == 1 and b.view_of is None and b.scope != GLOBAL and b.dtype == source.dtype and source.scope == GLOBAL
                and source.view_of is None and source not in writes and not any(isinstance(x, Load) for i in copy.value.indices for x in walk_expr(i))):
            found[b] = copy
    return found


def _by_copy(s: Stmt) -> tuple[Buffer, _Copy] | None:
    """``T.copy(tensor[...], tile)``."""
    if not isinstance(s, TileOp) or s.op != "copy":
        return None
    src, dst = s.region("src"), s.region("dst")
    axes = tile_axes(src)
    if not dst.is_whole() or [const_int(src.extents[k]) for k in axes] != [const_int(e) for e in dst.buffer.shape] or None in map(const_int, dst.buffer.shape):
        return None
    variables = tuple(Var("int32", None, f"i{k}", "loop") for k in range(dst.buffer.ndim))
    place = list(src.mins)
    for k, var in zip(axes, variables):
        place[k] = place[k] + var
    return dst.buffer, _Copy(s, variables, Load(src.dtype, src.span, src.buffer, tuple(place)))


def _by_loop(s: Stmt) -> tuple[Buffer, _Copy] | None:
    """``for i in T.serial(n): array[i] = tensor[..., i]``."""
    if not isinstance(s, For) or s.step != 1 or const_int(s.start) != 0 or len(s.body) != 1 or not isinstance(s.body[0], Store):
        return None
    store = s.body[0]
    if store.indices != (s.var,) or const_int(s.extent) is None or const_int(s.extent) != const_int(store.buffer.shape[0]) or not isinstance(store.value, Load):
        return None
    return store.buffer, _Copy(s, (s.var,), store.value)


def _asked_of_tensors(cond: Expr, held: dict[Buffer, _Copy]) -> Expr:
    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Load) or e.buffer not in held:
            return None
        copy = held[e.buffer]
        return replace(copy.value, indices=_placed(copy, tuple(map_expr(i, rule) for i in e.indices)))

    return map_expr(cond, rule)


def _placed(copy: _Copy, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    values = dict(zip(copy.variables, indices))
    return tuple(substitute(i, values) for i in copy.value.indices)
