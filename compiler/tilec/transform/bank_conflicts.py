"""Shared tiles whose rows meet the same banks: stored with their sixteen-byte pieces exchanged where that takes a warp fewer turns.

Shared memory serves 128 bytes a turn, four from each of 32 banks. What a warp's first iteration of a loop touches is worked out for the layout that
the loop has, with the tile stored plainly and swizzled; every loop that uses the tile counts as often as its threads run it.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..analysis.layout import REGISTER, FragmentLayout
from ..ir import dtypes
from ..ir.buffer import Buffer, Region
from ..ir.evaluate_int import evaluate
from ..ir.expr import Call, Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Alloc, Body, Parallel, Stmt, Store, TileOp, bodies, expressions
from ..ir.stmt import walk as walk_statements
from .context import LaunchState
from .layouts import moves_by_one

WARP, BANKS, WORD = 32, 32, 4
_VECTOR_BYTES = 16


class _OthersZero(dict):
    """Values of a loop's variables; what is not known counts from zero."""

    def __missing__(self, key: Any) -> int:
        if isinstance(key, Var):
            return 0
        raise KeyError(key)


def tiles_of_loops(body: Body, state: LaunchState) -> dict[Buffer, list[tuple[Parallel, tuple[Expr, ...]]]]:
    """Shared tiles that parallel loops alone read and write, by element, and where they do."""
    found: dict[Buffer, list[tuple[Parallel, tuple[Expr, ...]]]] = defaultdict(list)
    refused: set[Buffer] = set()

    def visit(statements: Body, loop: Parallel | None) -> None:
        for s in statements:
            inner = s if isinstance(s, Parallel) and id(s) not in state.each_thread and id(s) in state.loop_layouts else loop
            for b, indices in _elements(s, refused):
                if inner is None:
                    refused.add(b.storage())
                else:
                    found[b].append((inner, indices))
            for nested in bodies(s):
                visit(nested, inner)

    visit(body, None)
    refused |= {s.buffer.storage() for s in walk_statements(body) if isinstance(s, Alloc) and s.buffer.view_of is not None}
    return {b: uses for b, uses in found.items() if b.is_shared() and b.view_of is None and b not in refused}


def _elements(s: Stmt, refused: set[Buffer]) -> Iterable[tuple[Buffer, tuple[Expr, ...]]]:
    """The elements a statement itself accesses; buffers that it uses in another way are refused."""
    found: list[tuple[Buffer, tuple[Expr, ...]]] = [(s.buffer, s.indices)] if isinstance(s, Store) else []
    if isinstance(s, TileOp):
        refused.update(r.buffer.storage() for r in s.args.values() if isinstance(r, Region))
    for e in expressions(s):
        for x in walk_expr(e):
            if isinstance(x, Call):
                refused.update(a.buffer.storage() for a in x.args if isinstance(a, Load))
            elif isinstance(x, Load):
                found.append((x.buffer, x.indices))
                if x.buffer.view_of is not None:
                    refused.add(x.buffer.storage())
    return found


def fewer_turns(b: Buffer, uses: list[tuple[Parallel, tuple[Expr, ...]]], swizzle: Any, state: LaunchState) -> bool:
    """Whether a warp waits less for the tile if it is swizzled."""
    plain = swizzled = 0
    for loop, indices in uses:
        layout = state.loop_layouts[id(loop)]
        size = dtypes.bits(b.dtype) // 8
        width = _width(loop, layout, indices, size)
        lanes = _lanes(loop, layout, indices)
        if lanes is None:
            continue
        times = max(1, layout.registers // width)
        plain += times * _turns([_address(b, i, size) for i in lanes], width * size)
        swizzled += times * _turns([_address(b, swizzle.physical(b, i), size) for i in lanes], width * size)
    return swizzled < plain


def _width(loop: Parallel, layout: FragmentLayout, indices: tuple[Expr, ...], size: int) -> int:
    """Elements that one access of a thread moves."""
    dim = len(loop.vars) - 1
    digit = next((d for d in layout.digits if d.dim == dim and d.axis == REGISTER and d.stride == 1), None)
    if digit is None or not moves_by_one(indices, loop.vars[-1]):
        return 1
    width = max(1, _VECTOR_BYTES // size)
    while digit.extent % width:
        width //= 2
    return width


def _lanes(loop: Parallel, layout: FragmentLayout, indices: tuple[Expr, ...]) -> list[tuple[int, ...]] | None:
    """The element that each thread of a warp accesses first; None if that is known at run time only."""
    found = []
    for lane in range(min(WARP, layout.threads)):
        values = _OthersZero(zip(loop.vars, layout.index_of(lane, 0)))
        try:
            found.append(tuple(int(evaluate(i, values)) for i in indices))
        except (KeyError, ValueError, ZeroDivisionError):
            return None
    return found


def _address(b: Buffer, indices: tuple[Any, ...], size: int) -> int:
    total = 0
    for index, extent in zip(indices, b.static_shape() or ()):
        total = total * extent + evaluate(index, {})
    return total * size


def _turns(addresses: list[int], size: int) -> int:
    """How often shared memory must be asked for ``size`` bytes from each address: a bank gives one word a turn, the same word to all."""
    together = min(WARP, WARP * WORD // max(size, WORD))
    turns = 0
    for first in range(0, len(addresses), together):
        words = {w for a in addresses[first:first + together] for w in range(a // WORD, (a + size - 1) // WORD + 1)}
        banks: dict[int, int] = defaultdict(int)
        for w in words:
            banks[w % BANKS] += 1
        turns += max(banks.values(), default=0)
    return turns
