"""The statements of a kernel that place fragments, as layout inference sees them: loops, products, reductions.

A copy that touches a fragment is a loop over its elements. Conditions are TileLang's (0.1.15): op/parallel.cc, op/copy.cc.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..ir.buffer import FRAGMENT, GLOBAL, REDUCER, SHARED, SHARED_DYN, Buffer, Region, tile_axes, whole
from ..ir.build import const_int
from ..ir.expr import Call, Expr, Load, Select, Unknown, Var, children, equal
from ..ir.expr import walk as walk_expr
from ..ir.ops import OPS
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Launch, Let, Parallel, Stmt, Store, TileOp, While, bodies, expressions
from ..records import dataclass
from ..source.span import Span
from .digits import DigitSum
from .placement import Space

MEMORY = (GLOBAL, SHARED, SHARED_DYN)


@dataclass(eq=False, repr=False)
class Access:
    """A fragment in a loop: one pattern of indices for all its uses there."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    sums: list[DigitSum | None]
    span: Span | None
    reads: bool = False
    writes: bool = False


@dataclass(eq=False, repr=False)
class MemoryAccess:
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool


@dataclass(eq=False, repr=False)
class LoopOp:
    """``known``: everything that matters was understood. ``scalar``: one statement without conditions or calls."""

    stmt: Stmt
    space: Space
    variables: tuple[Var, ...]
    accesses: list[Access] = field(default_factory=list)
    memory: list[MemoryAccess] = field(default_factory=list)
    known: bool = True
    simple: bool = True
    layout: Any = None  # of loop_layout=
    inner: int = 0  # serial loops inside, the first of the space after the loop's own variables

    def buffers(self) -> list[Buffer]:
        return [a.buffer for a in self.accesses]

    def is_common(self, access: Access) -> bool:
        """Whether the indices are the loop's variables, in order."""
        return len(access.indices) == len(self.variables) and all(i is v for i, v in zip(access.indices, self.variables))


@dataclass(eq=False, repr=False)
class ProductOp:
    stmt: TileOp
    known: bool = True

    def buffers(self) -> list[Buffer]:
        return [r.buffer for r in (self.stmt.args.get(n) for n in "ABC") if isinstance(r, Region) and r.buffer.scope == FRAGMENT]


@dataclass(eq=False, repr=False)
class ReduceOp:
    stmt: TileOp
    src: Buffer
    dst: Buffer
    dim: int
    known: bool = True

    def buffers(self) -> list[Buffer]:
        return [b for b in (self.src, self.dst) if b.scope == FRAGMENT]


@dataclass(eq=False, repr=False)
class OtherOp:
    """``places``: it may give its fragments layouts in a way that is not modelled here."""

    stmt: Stmt
    touched: list[Buffer]
    places: bool = True
    known: bool = False

    def buffers(self) -> list[Buffer]:
        return self.touched


Operator = LoopOp | ProductOp | ReduceOp | OtherOp


def has_fragments(body: Body) -> bool:
    return any(isinstance(s, Alloc) and s.buffer.scope == FRAGMENT for s in body) or any(
        has_fragments(inner) for s in body for inner in bodies(s))


def fragments_of(launch: Launch, outside: Body = ()) -> list[Buffer]:
    return [s.buffer for s in (*outside, *_walk(launch.body)) if isinstance(s, Alloc) and s.buffer.scope == FRAGMENT]


def _walk(body: Body) -> Iterator[Stmt]:
    for s in body:
        yield s
        for inner in bodies(s):
            yield from _walk(inner)


class Collector:
    """The operators of a launch, in program order."""

    def __init__(self, launch: Launch) -> None:
        self.operators: list[Operator] = []
        self.floating: dict[Buffer, Stmt] = {}  # fragments whose elements are used outside of loops over threads
        self.lets: dict[Var, Expr] = {}
        self._threads = set(launch.attrs.get("thread_vars", ()))
        self._serial: list[tuple[Var, int]] = []
        self._pipelines = 0
        self._inner_lets: set[Var] = set()  # names bound in loops over threads: what they stand for has been met there
        self._body(launch.body, True)

    def _body(self, body: Body, known: bool) -> None:
        for s in body:
            self._statement(s, known)

    def _statement(self, s: Stmt, known: bool) -> None:
        if isinstance(s, Parallel):
            self.operators.append(self._loop(s, known))
        elif isinstance(s, TileOp):
            self._operator(s, known)
        elif isinstance(s, For):
            self._float(s)
            extent = const_int(s.extent)
            explicit = s.kind == "unroll" and s.attrs.get("explicit") not in (None, False)
            added = extent is not None and extent > 0 and const_int(s.start) == 0 and s.step == 1
            if added:
                self._serial.append((s.var, extent))  # type: ignore[arg-type]
            self._pipelines += s.kind == "pipelined"
            self._body(s.body, known and not explicit)
            self._pipelines -= s.kind == "pipelined"
            if added:
                self._serial.pop()
        elif isinstance(s, (If, While)):
            self._float(s)
            uniform = known and not self._differs(s.cond)
            for inner in bodies(s):
                self._body(inner, uniform)
        elif isinstance(s, Let):
            self.lets[s.var] = s.value
            self._float(s)
        elif isinstance(s, Store) and known and not self._pipelines and not any(self._differs(e) for e in (*s.indices, s.value)):
            self._single(s)
        elif not isinstance(s, Alloc):
            self._float(s)

    def _single(self, s: Store) -> None:
        """A store outside of loops over threads becomes a loop of one iteration where it touches a fragment."""
        variable = Var("int32", None, "_", "loop")
        loop = LoopOp(s, Space([(variable, 1)], self._serial, self.lets), (variable,), simple=False)
        self._loop_body(loop, (s,))
        if loop.accesses:
            self.operators.append(loop)

    def _differs(self, e: Expr) -> bool:
        """Whether threads may disagree about a condition."""
        for x in walk_expr(e):
            if isinstance(x, (Unknown, Call)) or (isinstance(x, Var) and (x in self._threads or x.kind == "thread")):
                return True
            if isinstance(x, Var) and x in self.lets and self._differs(self.lets[x]):
                return True
            if isinstance(x, Load) and x.buffer.scope in ("local", "local.var"):
                return True
        return False

    def _float(self, s: Stmt) -> None:
        if isinstance(s, Store) and s.buffer.scope == FRAGMENT:
            self.floating.setdefault(s.buffer, s)
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer.scope == FRAGMENT:
                    self.floating.setdefault(x.buffer, s)
                elif isinstance(x, Call):
                    for a in x.args:
                        if isinstance(a, Region) and a.buffer.scope == FRAGMENT:
                            self.floating.setdefault(a.buffer, s)

    # -- tile operators ------------------------------------------------------------------------------------------
    def _operator(self, s: TileOp, known: bool) -> None:
        touched = [v.buffer for v in s.args.values() if isinstance(v, Region) and v.buffer.scope == FRAGMENT]
        self._float_operands(s)
        if not touched:
            return
        if s.op in ("fill", "clear", "transpose", "cumsum", "cummax", "atomic"):
            self.operators.append(OtherOp(s, touched, places=False, known=known))
        elif s.op in ("gemm", "wgmma_gemm"):
            self.operators.append(ProductOp(s, known))
        elif s.op == "copy":
            self.operators.append(self._copy(s, known) or OtherOp(s, touched))
        elif s.op == "reduce":
            src, dst, dim = s.args["src"], s.args["dst"], s.args["dim"]
            complete = isinstance(src, Region) and isinstance(dst, Region) and src.is_whole() and dst.is_whole()
            if not complete or not isinstance(dim, int) or isinstance(dim, bool) or not 0 <= dim < len(src.extents):
                self.operators.append(OtherOp(s, touched))
            else:
                self._reduction(s, src.buffer, dst.buffer, dim, known)
        else:
            self.operators.append(OtherOp(s, touched))

    def _reduction(self, s: TileOp, src: Buffer, dst: Buffer, dim: int, known: bool) -> None:
        """A tile in shared memory is copied into a fragment that is reduced, or that receives the result and is copied out."""
        held, result = self._in_fragment(src), self._in_fragment(dst)
        if result is not dst and s.args.get("clear") is not True:
            self._between(s, dst, result, known)
        if held is not src:
            self._between(s, src, held, known)
        self.operators.append(ReduceOp(s, held, result, dim, known))
        if result is not dst:
            self._between(s, result, dst, known)

    def _in_fragment(self, buffer: Buffer) -> Buffer:
        return Buffer(buffer.name, buffer.shape, buffer.dtype, FRAGMENT, buffer.span) if buffer.scope in (SHARED, SHARED_DYN) else buffer

    def _between(self, s: TileOp, src: Buffer, dst: Buffer, known: bool) -> None:
        loop = self._copy_loop(s, whole(src), whole(dst), known)
        self.operators.append(loop or OtherOp(s, [b for b in (src, dst) if b.scope == FRAGMENT]))

    def _float_operands(self, s: TileOp) -> None:
        """Fragments whose elements say where a tile operator works."""
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load) and x.buffer.scope == FRAGMENT:
                    self.floating.setdefault(x.buffer, s)

    def _copy(self, s: TileOp, known: bool) -> LoopOp | None:
        src, dst = s.args.get("src"), s.args.get("dst")
        if not isinstance(src, Region) or not isinstance(dst, Region):
            return None
        if src.buffer.scope not in (*MEMORY, FRAGMENT) or dst.buffer.scope not in (*MEMORY, FRAGMENT):
            return None
        loop = self._copy_loop(s, src, dst, known)
        if loop is not None:
            loop.layout = s.args.get("loop_layout")
            if s.args.get("coalesced_width") is not None:
                loop.simple = False
        return loop

    def _copy_loop(self, s: TileOp, src: Region, dst: Region, known: bool) -> LoopOp | None:
        axes = (tile_axes(src), tile_axes(dst))
        extents = [const_int(src.extents[i]) for i in axes[0]]
        if extents != [const_int(dst.extents[i]) for i in axes[1]] or not extents or any(e is None or e < 1 for e in extents):
            return None
        variables = tuple(Var("int32", None, "ijkl"[n % 4], "loop") for n in range(len(extents)))
        space = Space(list(zip(variables, extents)), self._serial, self.lets)  # type: ignore[arg-type]
        loop = LoopOp(s, space, variables, known=known)
        # the destination is met first, then the value
        self._touch(loop, dst.buffer, _positions(dst, axes[1], variables), s.arg_spans.get("dst"), True)
        self._touch(loop, src.buffer, _positions(src, axes[0], variables), s.arg_spans.get("src"), False)
        return loop

    def _touch(self, loop: LoopOp, buffer: Buffer, indices: tuple[Expr, ...], span: Span | None, writes: bool) -> None:
        if buffer.scope in MEMORY:
            loop.memory.append(MemoryAccess(buffer, indices, writes))
        if buffer.scope == REDUCER:
            loop.known = False
        if buffer.scope != FRAGMENT:
            return
        found = next((a for a in loop.accesses if a.buffer is buffer), None)
        if found is None:
            found = Access(buffer, indices, [loop.space.of(i) for i in indices], span)
            loop.accesses.append(found)
        elif not all(equal(a, b) for a, b in zip(found.indices, indices)):
            loop.known = False
        found.writes |= writes
        found.reads |= not writes

    # -- parallel loops ------------------------------------------------------------------------------------------
    def _loop(self, s: Parallel, known: bool) -> LoopOp:
        boxes, inner = [s], s.body
        while len(inner) == 1 and isinstance(inner[0], Parallel):
            boxes.append(inner[0])
            inner = inner[0].body
        variables = [v for b in boxes for v in b.vars]
        extents = [const_int(e) for b in boxes for e in b.extents]
        serial, understood = _inner_serial(inner)
        if any(e is None or e < 1 for e in extents):
            extents, understood = [1] * len(extents), False
        space = Space(list(zip(variables, extents)), [*serial, *self._serial], self.lets)  # type: ignore[arg-type]
        loop = LoopOp(s, space, tuple(variables), known=known and understood, layout=s.attrs.get("loop_layout"))
        loop.inner = len(serial)
        loop.simple = len(inner) == 1 and isinstance(inner[0], Store)
        if s.attrs.get("coalesced_width") is not None:
            loop.simple = False
        self._loop_body(loop, inner)
        return loop

    def _loop_body(self, loop: LoopOp, body: Body) -> None:
        for s in body:
            if isinstance(s, Store):
                self._touch(loop, s.buffer, s.indices, s.span, True)
                for e in (s.value, *s.indices):
                    self._loads(loop, e)
            elif isinstance(s, TileOp):
                self._element_operator(loop, s)
            elif isinstance(s, (For, If, Let, While, Evaluate)):
                loop.simple = False
                for e in expressions(s):
                    self._loads(loop, e)
                if isinstance(s, Let):
                    self.lets[s.var] = s.value
                    self._inner_lets.add(s.var)
                for inner in bodies(s):
                    self._loop_body(loop, inner)
            elif isinstance(s, Parallel):
                loop.known = False

    def _element_operator(self, loop: LoopOp, s: TileOp) -> None:
        """An operator on single elements inside the loop (atomics)."""
        loop.simple = False
        spec = OPS.get(s.op)
        for name, value in s.args.items():
            if isinstance(value, Expr):
                self._loads(loop, value)
            elif isinstance(value, Region):
                if spec is None or value.form != "element" or (value.buffer.scope == FRAGMENT and name in spec.writes):
                    loop.known = False
                self._touch(loop, value.buffer, value.mins, value.span, False)
                for e in value.mins:
                    self._loads(loop, e)

    def _loads(self, loop: LoopOp, e: Expr) -> None:
        if isinstance(e, Load):
            self._touch(loop, e.buffer, e.indices, e.span, False)
        if isinstance(e, (Call, Select, Unknown)):
            loop.simple = False
        if isinstance(e, Call) and any(isinstance(a, (Region, Buffer)) for a in e.args):
            loop.known = False
        if isinstance(e, Var) and e in self.lets and e not in self._inner_lets and self._holds_fragment(self.lets[e]):
            loop.known = False
        for child in children(e):
            self._loads(loop, child)

    def _holds_fragment(self, e: Expr) -> bool:
        return any(isinstance(x, Load) and x.buffer.scope == FRAGMENT for x in walk_expr(e))


def _positions(region: Region, axes: tuple[int, ...], variables: tuple[Var, ...]) -> tuple[Expr, ...]:
    place = dict(zip(axes, variables))
    return tuple(m + place[i] if i in place else m for i, m in enumerate(region.mins))


def _inner_serial(body: Body) -> tuple[list[tuple[Var, int]], bool]:
    """The serial loops inside a parallel one, and whether all have known bounds."""
    found: list[tuple[Var, int]] = []
    known = True
    for s in _walk(body):
        if isinstance(s, For):
            extent = const_int(s.extent)
            if extent is None or extent < 1 or const_int(s.start) != 0 or s.step != 1:
                known = False
            else:
                found.append((s.var, extent))
        elif isinstance(s, While):
            known = False
    return found, known
