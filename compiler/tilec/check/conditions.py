"""What the branches around a statement say about the values of variables: which of them they may tell apart, and whether some values pass."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from ..ir.buffer import FRAGMENT, GLOBAL, SHARED, SHARED_DYN, Buffer, Region
from ..ir.evaluate_int import evaluate
from ..ir.expr import Binary, Call, Expr, Load, Unary, Unknown, Var, equal
from ..ir.stmt import If, Let, Store, TileOp, While
from ..records import dataclass
from .facts import READ, Facts, Place
from .ranges import Range, Ranges

_FEW = 7  # values of a variable that are tried
_TRIALS = 4000


@dataclass
class Parts:
    """What an expression is made of, names that stand for values looked through."""

    plain: set[Var] = field(default_factory=set)  # outside of the indices of loads
    within: set[Var] = field(default_factory=set)  # in indices of loads
    loads: list[Load] = field(default_factory=list)
    opaque: bool = False  # calls, and what nobody knows

    @property
    def variables(self) -> set[Var]:
        return self.plain | self.within


def lets(facts: Facts) -> dict[Var, Expr]:
    return facts.remembered("lets", lambda: {p.stmt.var: p.stmt.value for p in facts.places if isinstance(p.stmt, Let)})


def parts(facts: Facts, *expressions: Expr) -> Parts:
    found, names = Parts(), lets(facts)

    def visit(e: Expr, inside: bool) -> None:
        if isinstance(e, Var):
            if e in names:
                visit(names[e], inside)
            elif e.kind in ("let", "const", "size"):
                found.opaque = True
            else:
                (found.within if inside else found.plain).add(e)
        elif isinstance(e, (Unknown, Call)):
            found.opaque = True
        elif isinstance(e, Load):
            found.loads.append(e)
            for i in e.indices:
                visit(i, True)
        else:
            for x in e.children():
                visit(x, inside)

    for e in expressions:
        visit(e, False)
    return found


def conditions(place: Place) -> list[tuple[Expr, bool]] | None:
    """What is true or false where the statement runs; None where a loop's condition says it."""
    found: list[tuple[Expr, bool]] = []
    for number, parent in enumerate(place.parents):
        if isinstance(parent, While) or isinstance(parent, If) and type(parent) is not If:
            return None
        if isinstance(parent, If):
            inner = place.parents[number + 1] if number + 1 < len(place.parents) else place.stmt
            found += _split(parent.cond, any(s is inner for s in parent.then))
    return found


def _split(cond: Expr, holds: bool) -> Iterator[tuple[Expr, bool]]:
    if isinstance(cond, Binary) and cond.op == ("and" if holds else "or"):
        yield from _split(cond.a, holds)
        yield from _split(cond.b, holds)
    elif isinstance(cond, Unary) and cond.op == "not":
        yield from _split(cond.a, not holds)
    else:
        yield cond, holds


def is_input(facts: Facts, buffer: Buffer) -> bool:
    """A tensor of the caller that the kernel does not write."""
    return buffer.scope == GLOBAL and all(a.kind == READ for a in facts.storage_uses.get(buffer.storage(), ()))


class _Values(dict[Any, Any]):
    """Values of variables, and of the names that stand for expressions of them."""

    def __init__(self, values: Iterable[tuple[Var, int]], names: dict[Var, Expr]):
        super().__init__(values)
        self.names = names

    def __missing__(self, var: Any) -> Any:
        return evaluate(self.names[var], self)


def reached(facts: Facts, place: Place, index: Expr, ranges: Ranges, inside: range) -> int | None:
    """A value of an index that is not among those ``inside``, at values of the variables with which the branches around let the statement run. A condition that
    depends on data must have nothing to do with the index, not even through other conditions."""
    given = conditions(place)
    own = parts(facts, index).plain
    if given is None:
        return None
    known: list[tuple[Expr, bool]] = []
    linked: list[set[Var]] = []
    open_: list[set[Var]] = []
    for cond, holds in given:
        p = parts(facts, cond)
        if p.opaque or not all(is_input(facts, x.buffer) for x in p.loads):
            return None
        if p.loads or not p.plain <= ranges.keys():
            open_.append(p.variables)
        else:
            known.append((cond, holds))
            linked.append(p.plain)
    near = set(own)
    for _ in linked:
        near = near.union(*(s for s in linked if s & near))
    if any(s & near for s in open_):
        return None
    try:
        for values in _trials(facts, own.union(*linked), ranges):
            value = evaluate(index, values)
            if value not in inside and all(bool(evaluate(c, values)) == h for c, h in known):
                return int(value)
    except (KeyError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return None
    return None


def _trials(facts: Facts, variables: set[Var], ranges: Ranges) -> Iterator[_Values]:
    order = sorted(variables, key=lambda v: v.name)
    choices = [_some(ranges[v]) for v in order]
    for values in itertools.islice(itertools.product(*choices), _TRIALS):
        yield _Values(zip(order, values), lets(facts))


def _some(r: Range) -> list[int]:
    """The ends, and values between them."""
    count = (r.high - r.low) // r.step + 1
    picked = range(count) if count <= _FEW else [(count - 1) * n // (_FEW - 1) for n in range(_FEW)]
    found = [r.low + n * r.step for n in picked]
    return [found[-1], *found[:-1]]


def may_select(facts: Facts, place: Place, about: set[Var], threads: bool = False) -> bool:
    """Whether a branch around a statement may let only one value of these variables pass: it mentions them, or what it reads may
    depend on them. ``threads``: so does one that mentions a thread."""
    given = conditions(place)
    if given is None:
        return True
    for cond, _ in given:
        p = parts(facts, cond)
        if p.opaque or p.variables & about or threads and any(v.kind == "thread" for v in p.variables):
            return True
        if not all(is_input(facts, x.buffer) or _is_data(facts, x, about) for x in p.loads):
            return True
    return False


def _is_data(facts: Facts, load: Load, about: set[Var]) -> bool:
    """Whether an element of a tile on the chip is one value among many, none of which was made to tell these variables apart: no flag."""
    own = parts(facts, *load.indices)
    if load.buffer.scope not in (SHARED, SHARED_DYN, FRAGMENT) or own.opaque or not any(v.kind == "loop" for v in own.plain):
        return False
    for access in facts.storage_uses.get(load.buffer.storage(), ()):
        s = access.stmt
        if access.kind == READ or isinstance(s, TileOp) and s.op in ("atomic", "clear"):
            continue
        if isinstance(s, TileOp) and s.op == "copy" and isinstance(s.args.get("src"), Region):
            told: list[Expr] = []
        elif isinstance(s, Store):
            told = [s.value, *s.indices]
        else:
            return False
        given = conditions(access.place)
        if given is None:
            return False
        p = parts(facts, *told, *(c for c, _ in given))
        if p.opaque or p.plain & about:
            return False
    return True


def passing(facts: Facts, place: Place, var: Var, ranges: Ranges, about: list[Load]) -> bool:
    """Whether the branches around a statement let at least two values of a variable pass. Conditions on the loads ``about`` are left out of account."""
    given = conditions(place)
    if given is None:
        return False
    known: list[tuple[Expr, bool]] = []
    variables: set[Var] = set()
    limits = dict(ranges)
    for cond, holds in given:
        p = parts(facts, cond)
        if p.opaque:
            return False
        if p.loads:
            if var in p.plain or not all(any(equal(x, y) for y in about) for x in p.loads) and (var in p.within or not all(is_input(facts, x.buffer) for x in p.loads)):
                return False
            continue
        for v in p.plain - limits.keys():
            if v.kind not in ("dynamic", "param", "block"):
                return False
            limits[v] = Range(0, 0) if v.kind == "block" else Range(1 << 20, 1 << 20)
        known.append((cond, holds))
        variables |= p.plain
    if var not in variables:
        return True
    own = ranges[var]
    try:
        for values in itertools.islice(_trials(facts, variables - {var}, limits), 60):
            count = 0
            for value in range(own.low, min(own.high, own.low + 1024) + 1, own.step):
                values[var] = value
                count += all(bool(evaluate(c, values)) == h for c, h in known)
                if count >= 2:
                    return True
    except (KeyError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return False
    return False
