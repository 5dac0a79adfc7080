"""The code of the warps that compute: the kernel without the copies that another warp does."""
from __future__ import annotations

from dataclasses import replace

from ...ir.buffer import Buffer
from ...ir.build import binary, const, const_int, const_value
from ...ir.expr import Expr
from ...ir.stmt import Alloc, Body, For, If, Stmt, TileOp
from ...ir.stmt import walk as walk_statements
from ...records import dataclass
from ...target.chips import Target
from ..ahead import accesses, at_stage
from ..rewrite import map_children, substitute_body
from .guarded import guard_of, under_guard
from .plan import LaunchPlan, LoopPlan
from .rings import Place, Ring, Single, release, wait
from .rotate import hoisted, rotation
from .schedule import Running, Scheduler, starts_wgmma, wait_for


@dataclass
class LoopBody:
    """What is left of a pipelined loop's body; ``first``, ``last``: the rings whose tiles a statement is the first or last to read."""

    statements: Body
    first: dict[int, list[Ring]]
    last: dict[int, list[Ring]]


class Consumer:
    """``places``: where the consumers are in each loop's rings; ``later``: the same for the last operation of a rotated loop."""

    def __init__(self, plan: LaunchPlan, rings: dict[int, list[Ring]], places: dict[int, Place], later: dict[int, Place], single: dict[int, Single],
                 nested: set[int], threads: int, target: Target) -> None:
        self.plan, self.rings, self.places, self.later, self.single, self.nested = plan, rings, places, later, single, nested
        self.threads, self.target = threads, target
        self.moved = {old for found in rings.values() for r in found for old in r.tiles} | {x.tile for x in single.values()}
        self.rotated: set[int] = set()

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        arriving: list[Single] = []
        last = {id(x): max((i for i, s in enumerate(body) if _touches(s, x.tile) and not isinstance(s, Alloc)), default=-1) for x in self.single.values()}
        for i, s in enumerate(body):
            if isinstance(s, Alloc) and s.buffer in self.moved:
                continue
            if id(s) in self.single:
                arriving.append(self.single[id(s)])
                continue
            for single in [x for x in arriving if _touches(s, x.tile) and not isinstance(s, Alloc)]:
                arriving.remove(single)
                out += single.arrive()
            if id(s) in self.plan.loops:
                assert isinstance(s, For)
                out += self._pipelined(s, self._starting_from_zero(s, out))
            else:
                out.append(map_children(s, self.body))
            for single in self.single.values():
                if last[id(single)] == i:
                    out += single.leave()
        for single in arriving:  # nothing may arrive after the end
            out += [*single.arrive(), *single.leave()]
        return tuple(out)

    def _starting_from_zero(self, s: For, before: list[Stmt]) -> Body:
        """Clears right before a loop that only adds to what they clear are left out: the first iteration starts from zero."""
        body = s.body
        if guard_of(s) is not None:  # the first iteration may be left out
            return body
        k = len(before) - 1
        while (const_int(s.extent) or 0) > 0 and k >= 0 and (isinstance(before[k], Alloc) or _is_clear(before[k])):
            clear = before[k]
            adding = [i for i, x in enumerate(body) if isinstance(clear, TileOp) and _touches(x, clear.region("dst").buffer)]
            if len(adding) == 1 and starts_wgmma(body[adding[0]], self.threads, self.target) and _zeroes(clear, body[adding[0]]):
                operation = body[adding[0]]
                assert isinstance(operation, TileOp)
                made = replace(operation, args={**operation.args, "keeps": binary("ne", s.var, s.start)},
                               arg_spans={**operation.arg_spans, **({} if clear.span is None else {"keeps": clear.span})})
                body = (*body[: adding[0]], made, *body[adding[0] + 1:])
                del before[k]
            k -= 1
        return body

    # -- pipelined loops ---------------------------------------------------------------------------------------------------------
    def _pipelined(self, s: For, statements: Body) -> list[Stmt]:
        allocations, body = self._left(s, self.plan.loops[id(s)], statements)
        starts = [starts_wgmma(x, self.threads, self.target) for x in body.statements]
        split = rotation(body.statements, starts) if guard_of(s) is None else None
        if split is not None and not self._holds_two(s, body, split):
            split = None
        return [*allocations, *(self._plain(s, body) if split is None else self._rotated(s, body, split))]

    def _left(self, s: For, plan: LoopPlan, statements: Body) -> tuple[list[Stmt], LoopBody]:
        allocations, rest = hoisted(tuple(x for x in statements if not (isinstance(x, Alloc) and x.buffer in self.moved)))
        kept = [i for i, x in enumerate(statements) if id(x) not in plan.taken and x in rest]
        number = {i: k for k, i in enumerate(kept)}
        first: dict[int, list[Ring]] = {}
        last: dict[int, list[Ring]] = {}
        for r in self.rings[id(s)]:
            first.setdefault(number[r.group.first], []).append(r)
            last.setdefault(number[r.group.last], []).append(r)
        return allocations, _clears_folded(LoopBody(tuple(statements[i] for i in kept), first, last), self.threads, self.target)

    def _plain(self, s: For, body: LoopBody) -> list[Stmt]:
        place = self.places[id(s)]
        # With one stage the next iteration's tile arrives only once this one's is given back; where iterations are left out, which one is next is not known.
        carries = place.stages > 1 and guard_of(s) is None
        scheduled, left = self._sequence(s, body, [(i, place) for i in range(len(body.statements))], {place: s.var}).run(carries)
        loop = replace(s, kind="serial", attrs={}, body=under_guard(s, (*place.enter(), *scheduled, *place.advance())))
        return [loop, *self._drain(s, left, place.latest())]

    def _holds_two(self, s: For, body: LoopBody, split: int) -> bool:
        """A tile that is read before and by the last operation is held while the next one is waited for."""
        operation = len(body.statements) - 1
        spanning = [r for i, found in body.first.items() if i < operation for r in found if r in body.last.get(operation, ())]
        return not spanning or self.plan.loops[id(s)].stages >= 2

    def _rotated(self, s: For, body: LoopBody, split: int) -> list[Stmt]:
        early, late = self.places[id(s)], self.later[id(s)]
        begin, end = early.sibling("first"), late.sibling("last")
        operation = len(body.statements) - 1
        ahead, between = list(range(split + 1)), list(range(split + 1, operation))
        start = self._sequence(s, body, [(i, begin) for i in (*ahead, *between)], {begin: s.start}).straight()
        order = [*((i, early) for i in ahead), (operation, late), *((i, early) for i in between)]
        scheduled, left = self._sequence(s, body, order, {early: s.var + s.step, late: s.var}).run()
        if left:  # nothing between the operations waits for the last one: it would overlap anyway
            return self._plain(s, body)
        self.rotated.add(id(s))
        steady: list[Stmt] = [*early.enter(), *late.enter(), *scheduled, *early.advance(), *late.advance()]
        loop = replace(s, extent=s.extent - 1, kind="serial", attrs={}, body=tuple(steady))
        final, running = self._sequence(s, body, [(operation, end)], {end: s.start + (s.extent - 1) * s.step}).finishing()
        out: list[Stmt] = [*begin.enter(), *start, *begin.advance(), loop, *end.enter(), *final, *end.advance(),
                           *self._drain(s, running, end.now, always=True)]
        return out if (const_int(s.extent) or 0) > 0 else [If(s.span, binary("gt", s.extent, const(0)), tuple(out))]

    def _sequence(self, s: For, body: LoopBody, order: list[tuple[int, Place]], values: dict[Place, Expr]) -> Scheduler:
        """Statements of the body in an order, each in the iteration that its place stands for."""
        tiles = {old: new for r in self.rings[id(s)] for old, new in r.tiles.items()}
        statements: list[Stmt] = []
        waits: dict[int, list[Stmt]] = {}
        releases: dict[int, list[tuple[Ring, Place]]] = {}
        for k, (i, place) in enumerate(order):
            x = at_stage((body.statements[i],), tiles, place.now)
            statements += x if values[place] is s.var else substitute_body(x, {s.var: values[place]})
            waits[k] = [wait(r.full, place.now, place.parity, s.span) for r in body.first.get(i, ())]
            releases[k] = [(r, place) for r in body.last.get(i, ())]

        def give_back(what: tuple[Ring, Place], before: bool) -> list[Stmt]:
            ring, place = what
            if not before:
                return [release(ring, place.now, s.span)]
            return [If(s.span, binary("gt", s.var, s.start), (release(ring, place.before(), s.span),))]

        return Scheduler(tuple(statements), releases, waits, give_back, self.threads, self.target)

    def _drain(self, s: For, left: list[Running], stage: Expr, always: bool = False) -> list[Stmt]:
        """After the loop: what still runs is waited for, and its stages given back if the loop comes again."""
        if not left:
            return []
        out: list[Stmt] = [wait_for(left, [])]
        if id(s) in self.nested:
            given = tuple(release(ring, stage, s.span) for r in left for ring, _ in r.gives_back)
            sure = always or (const_int(s.extent) or 0) > 0
            out += given if sure else ((If(s.span, binary("gt", s.extent, const(0)), given),) if given else ())
        return out


def _touches(s: Stmt, b: Buffer) -> bool:
    return any(b.storage() is x.storage() for inner in walk_statements((s,)) for found in accesses(inner) for x in found)


def _clears_folded(body: LoopBody, threads: int, target: Target) -> LoopBody:
    """A fill with zero right before a matrix operation becomes its start from zero, which costs no instruction."""
    out: list[Stmt] = []
    place: dict[int, int] = {}
    for i, s in enumerate(body.statements):
        if out and starts_wgmma(s, threads, target) and _zeroes(out[-1], s):
            assert isinstance(s, TileOp)
            out[-1] = replace(s, args={**s.args, "clear_accum": const(True)})
        else:
            out.append(s)
        place[i] = len(out) - 1
    moved = LoopBody(tuple(out), {}, {})
    for i, found in body.first.items():
        moved.first.setdefault(place[i], []).extend(found)
    for i, found in body.last.items():
        moved.last.setdefault(place[i], []).extend(found)
    return moved


def _is_clear(s: Stmt) -> bool:
    """Whether a statement sets a whole buffer to zero."""
    if not isinstance(s, TileOp) or s.op not in ("clear", "fill"):
        return False
    value = 0 if s.op == "clear" else const_value(s.args["value"])
    return s.region("dst").is_whole() and value is not None and float(value) == 0.0


def _zeroes(s: Stmt, op: Stmt) -> bool:
    assert isinstance(op, TileOp)
    return _is_clear(s) and isinstance(s, TileOp) and s.region("dst").buffer is op.region("C").buffer
