"""Exchange between the threads of a warp or block: each stores its value, then reads those of others (``threads`` splits the loops between the two)."""
from __future__ import annotations

from typing import Any

from ...ir.buffer import SHARED, Buffer
from ...ir.build import binary, cast, const, const_int, select
from ...ir.expr import Call, Expr, Load, Var
from ...ir.expr import walk as walk_expr
from ...ir.stmt import Alloc, Body, For, Stmt, Store, While, expressions
from ..errors import LoweringError
from ..rewrite import map_children, map_expr, map_own

WARP = 32
_SHUFFLES = {"shfl_xor": "xor", "shfl_down": "down", "shfl_up": "up", "shfl_sync": "from", "tvm_warp_shuffle": "from", "tvm_warp_shuffle_up": "up",
             "tvm_warp_shuffle_down": "down"}
_REDUCTIONS: dict[str, str] = {"warp_reduce_sum": "add", "warp_reduce_max": "max", "warp_reduce_min": "min", "warp_reduce_bitand": "bitand",
                               "warp_reduce_bitor": "bitor"}
_VOTES = ("any_sync", "all_sync", "ballot_sync", "ballot", "syncthreads_count", "syncthreads_and", "syncthreads_or")
_EXCHANGES = {*_SHUFFLES, *_REDUCTIONS, *_VOTES, "shuffle_elect"}
_ALONE = ("match_any_sync", "match_all_sync", "activemask", "tvm_warp_activemask")  # they ask who runs at the moment
NEEDS_THREADS = frozenset((*_EXCHANGES, *_ALONE))


def exchange(body: Body, number: Expr, count: int) -> Body:
    """The body with every exchange spelled out. ``number``: of the thread in its block of ``count``."""
    return _Exchange(number, count).of(body)


class _Exchange:
    def __init__(self, number: Expr, count: int) -> None:
        self.number, self.count = number, count
        self.before: list[Stmt] = []
        self.statement: Any = None

    def of(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            s = map_children(s, self.of)
            if any(isinstance(x, Call) and x.op in NEEDS_THREADS for e in expressions(s) for x in walk_expr(e)):
                if isinstance(s, While):
                    raise LoweringError("the condition of this loop is an exchange between threads, which the CPU target cannot do; ask before the loop and at "
                                        "the end of its body, or choose a CUDA target", s.span, "cpu-threads")
                self.before, self.statement = [], s
                changed = map_own(s, self._spelled_out)
                out += self.before
                s = changed
            out.append(s)
        return tuple(out)

    def _spelled_out(self, e: Expr) -> Expr | None:
        if not isinstance(e, Call):
            return None
        if e.op in _ALONE:
            raise LoweringError(f"T.{e.op} asks which threads run at the moment; on the CPU they run one after another. Choose a CUDA target",
                                e.span or self.statement.span, "cpu-threads")
        if e.op not in _EXCHANGES:
            return None
        args = [map_expr(a, self._spelled_out) if isinstance(a, Expr) else a for a in e.args]
        if e.op in _SHUFFLES:
            return self._shuffle(e, args)
        if e.op in _REDUCTIONS:
            return self._reduced(e, args[0])
        if e.op == "shuffle_elect":
            extent = const_int(args[0]) or 0
            return binary("eq", self.number if extent == 0 else self.number % extent, const(0))
        return self._vote(e, args[0])

    # -- values of other threads ----------------------------------------------------------------------------------------
    def _shared(self, value: Expr, name: str) -> Buffer:
        made = Buffer(name, (const(self.count),), value.dtype, SHARED)
        self.before += [Alloc(self.statement.span, made), Store(self.statement.span, made, (self.number,), value)]
        return made

    def _of(self, values: Buffer, thread: Expr) -> Expr:
        """Another thread's value; of one that the block does not have, one's own."""
        if self.count % WARP:
            thread = select(binary("lt", thread, const(self.count)), thread, self.number)
        return Load(values.dtype, self.statement.span, values, (thread,))

    def _shuffle(self, e: Call, args: list[Any]) -> Expr:
        """The rules of CUDA's __shfl_*_sync: lanes outside the part of ``width`` give one's own value."""
        value, place, width = (args[1], args[2], args[3]) if e.op.startswith("tvm_") else (args[0], args[1], args[2] if len(args) > 2 else const(WARP))
        values = self._shared(value, "exchanged")
        lane, place = self.number % WARP, cast(place, "int32")
        width = cast(width, "int32")
        first = lane - lane % width
        kind = _SHUFFLES[e.op]
        if kind == "from":
            other = first + binary("bitand", place, width - 1)
            return self._of(values, self.number - lane + other)
        other = binary("bitxor", lane, place) if kind == "xor" else lane + place if kind == "down" else lane - place
        inside = binary("ge", other, first) if kind == "up" else binary("lt", other, first + width)
        return self._of(values, self.number - lane + select(inside, other, lane))

    def _reduced(self, e: Call, value: Expr) -> Expr:
        """In the order of CUDA's: halves of the warp, quarters, .."""
        combine = _REDUCTIONS[e.op]
        for offset in (16, 8, 4, 2, 1):
            values = self._shared(value, "reduced")
            other = self.number + binary("bitxor", self.number % WARP, const(offset)) - self.number % WARP
            value = binary(combine, Load(values.dtype, e.span, values, (self.number,)), self._of(values, other))
            value = cast(value, values.dtype)
        return value

    def _vote(self, e: Call, predicate: Expr) -> Expr:
        values = self._shared(cast(binary("ne", predicate, const(0, predicate.dtype)) if predicate.dtype != "bool" else predicate, "int32"), "votes")
        block = e.op.startswith("syncthreads_")
        first: Expr = const(0) if block else self.number - self.number % WARP
        voters = self.count if block else min(WARP, self.count)
        dtype = "uint64" if e.op.startswith("ballot") else "int32"
        every = e.op in ("all_sync", "syncthreads_and")
        result = Buffer("result", (const(self.count),), dtype, SHARED)
        mine = Load(dtype, e.span, result, (self.number,))
        k = Var("int32", None, "k", "loop")
        there = binary("lt", first + k, const(self.count))
        vote = select(there, Load("int32", e.span, values, (select(there, first + k, self.number),)), const(1 if every else 0))
        if e.op == "syncthreads_count":
            step: Expr = mine + vote
        elif dtype == "uint64":
            step = binary("bitor", mine, cast(vote, dtype) << cast(k, dtype))
        else:
            step = binary("bitand" if every else "bitor", mine, vote)
        span = self.statement.span
        self.before += [Alloc(span, result), Store(span, result, (self.number,), const(1 if every else 0, dtype)),
                        For(span, k, const(0), const(voters), (Store(span, result, (self.number,), step),))]
        return cast(mine, e.dtype)
