"""Groups of thread statements that synchronise as one, and what memory statements touch."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from ..ir.buffer import GLOBAL, Buffer
from ..ir.build import const
from ..ir.expr import Call, Expr, Load
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Body, If, Stmt, Store, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from ..source.span import Span


@dataclass(eq=False, repr=False)
class Unit(If):
    """The statements of one tile operation (``then``; the condition is always true). Barriers go between units, never inside.

    ``asynchronous``: its writes arrive when a later ``waits`` unit has run. ``barrier``: it synchronises the block.
    ``managed``: made by software pipelining, which knows when what it waits for is used.
    ``own``: each element it writes is always written by the same thread.
    ``told``: shared buffers of which each element is accessed by the threads of one warp, with the number of the places: units with the same number
    access the same elements by the same warps. Less than 0: by one and the same thread.
    ``late``: what is written asynchronously by a part of it, for which somebody outside waits.
    ``by_hand``: accesses of single threads as the program writes them, no operation on a tile.
    """

    reads: frozenset[Buffer] = frozenset()
    writes: frozenset[Buffer] = frozenset()
    asynchronous: bool = False
    waits: bool = False
    barrier: bool = False
    managed: bool = False
    own: bool = False
    told: frozenset[tuple[Buffer, int]] = frozenset()
    late: frozenset[Buffer] = frozenset()
    by_hand: bool = False


@dataclass
class Accesses:
    reads: set[Buffer] = field(default_factory=set)
    writes: set[Buffer] = field(default_factory=set)

    def expression(self, e: Expr) -> None:
        for x in _parts(e):
            if isinstance(x, Load) and is_memory(x.buffer):
                self.reads.add(x.buffer)
            elif isinstance(x, Call) and x.op == "device_function":
                self._call(x)
            elif isinstance(x, Call) and x.op.startswith("atomic_"):
                place = x.args[0]
                if isinstance(place, Load) and is_memory(place.buffer):
                    self.writes.add(place.buffer)

    def _call(self, e: Call) -> None:
        written = (e.attrs or {}).get("writes", ())
        for k, a in enumerate(e.args):
            if isinstance(a, Call) and a.op == "address_of":
                place = a.args[0]
                assert isinstance(place, Load)
                if is_memory(place.buffer):
                    (self.writes if k in written else self.reads).add(place.buffer)


def _parts(e: Expr) -> Iterable[Expr]:
    """Sub-expressions; an address is no access by itself, its indices are."""
    stack = [e]
    while stack:
        x = stack.pop()
        yield x
        if isinstance(x, Call) and x.op == "address_of":
            place = x.args[0]
            stack.extend(place.indices if isinstance(place, Load) else ())
            continue
        if isinstance(x, Call):
            stack.extend(a for a in x.args if isinstance(a, Expr))
        else:
            from ..ir.expr import children

            stack.extend(children(x))


def device_calls(s: Stmt) -> Iterator[tuple[Stmt, str]]:
    """The device functions called in a statement and in those it holds: who calls, and the function's name."""
    for inner in walk_statements((s,)):
        for e in expressions(inner):
            for x in walk_expr(e):
                if isinstance(x, Call) and x.op == "device_function":
                    yield inner, str((x.attrs or {}).get("name"))


def is_memory(b: Buffer) -> bool:
    """Memory that threads share, mbarriers apart."""
    return b.scope == GLOBAL or b.is_shared()


def accesses(body: Body) -> Accesses:
    found = Accesses()
    for s in walk_statements(body):
        if isinstance(s, Store) and is_memory(s.buffer):
            found.writes.add(s.buffer)
        for e in expressions(s):
            found.expression(e)
    return found


def unit(body: Iterable[Stmt], span: Span | None, asynchronous: bool = False, waits: bool = False, barrier: bool = False) -> Unit:
    statements = tuple(body)
    found = accesses(statements)
    return Unit(span, const(True), statements, (), frozenset(found.reads), frozenset(found.writes), asynchronous, waits, barrier)
