"""Loops of two matrix operations with other work between them, as in attention: the first operation of the next iteration is started
before the second of this one, so that both run while the threads work on the first one's result.

With A the statements up to the first operation, S the work between, and G the last operation, ``A S G`` repeated becomes
``A S (A G S)... G``: nothing but G and the next A change places, and those must not depend on each other.
"""
from __future__ import annotations

from ...ir.buffer import FRAGMENT
from ...ir.expr import Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Alloc, Body, Jump, Let, Stmt, expressions
from ...ir.stmt import walk as walk_statements
from ..ahead import accesses


def rotation(body: Body, starts: list[bool]) -> int | None:
    """The position of the first operation, if the loop can be rotated."""
    last = len(body) - 1
    if last < 2 or not starts[last] or sum(starts) != 2:
        return None
    first = starts.index(True)
    if first + 1 == last or any(isinstance(x, Jump) for x in walk_statements(body)):
        return None
    if any(isinstance(x, Alloc) for x in walk_statements(body)):
        return None
    reads, writes = _touched(body[last:])
    early_reads, early_writes = _touched(body[: first + 1])
    if early_writes & (reads | writes) or early_reads & writes:
        return None
    named = {x.var for x in walk_statements(body[:last]) if isinstance(x, Let)}
    return None if named & _variables(body[last:]) else first


def _touched(body: Body) -> tuple[set[object], set[object]]:
    found = [accesses(x) for x in walk_statements(body)]
    return {b.storage() for r, _ in found for b in r}, {b.storage() for _, w in found for b in w}


def _variables(body: Body) -> set[Var]:
    return {v for x in walk_statements(body) for e in expressions(x) for v in walk_expr(e) if isinstance(v, Var)}


def hoisted(body: Body) -> tuple[list[Stmt], Body]:
    """Fragments of a loop's body apart from the rest: of a rotated loop, one iteration reads what the one before left in them."""
    fragments: list[Stmt] = [x for x in body if isinstance(x, Alloc) and x.buffer.scope == FRAGMENT and x.buffer.view_of is None]
    return fragments, tuple(x for x in body if x not in fragments)
