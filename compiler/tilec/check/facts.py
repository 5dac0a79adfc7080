"""What the rules need to know about a tile program, collected in one walk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

from ..ir.buffer import Buffer, Region
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var, has_unknown, is_host_choice
from ..ir.expr import walk as walk_expr
from ..ir.ops import OPS
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, If, Jump, Launch, Parallel, Stmt, Store, TileOp, While, bodies
from ..records import dataclass
from ..source.span import Span
from ..target.chips import MAX_THREADS

BITWISE = {"bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>"}
T = TypeVar("T")
READ, WRITE, OPAQUE = "read", "write", "opaque"  # opaque: touched in a way nothing is known about


@dataclass(frozen=True, eq=False)
class Place:
    """A statement with its enclosing statements, outermost first, and its number in program order."""

    stmt: Stmt
    parents: tuple[Stmt, ...]
    order: int

    @property
    def launch(self) -> Launch | None:
        return next((p for p in self.parents if isinstance(p, Launch)), None)

    def loops(self) -> list[For]:
        return [p for p in self.parents if isinstance(p, For)]

    def inside(self, *kinds: type) -> bool:
        return any(isinstance(p, kinds) for p in self.parents)

    def is_conditional(self) -> bool:
        """Whether it may not run: under a branch or a while."""
        return self.inside(If, While)

    def is_thread_dependent(self) -> bool:
        """Whether only part of the block's threads may come here, as far as can be told."""
        return any(isinstance(p, If) and depends_on_threads(p.cond) for p in self.parents)


@dataclass(frozen=True, eq=False)
class Access:
    """One use of a buffer. ``indices`` for single elements, ``region`` for tile operators; one of the two is set."""

    buffer: Buffer
    kind: str
    place: Place
    span: Span | None
    indices: tuple[Expr, ...] | None = None
    region: Region | None = None
    argument: str = ""
    guarded: bool = False  # inside a T.if_then_else

    @property
    def stmt(self) -> Stmt:
        return self.place.stmt


def depends_on_threads(e: Expr) -> bool:
    return any(
        isinstance(x, Unknown) or (isinstance(x, Var) and x.kind in ("thread", "let")) or isinstance(x, Call)
        for x in walk_expr(e)
    )


@dataclass
class Facts:
    program: TileProgram
    places: list[Place] = field(default_factory=list)
    uses: dict[Buffer, list[Access]] = field(
        default_factory=lambda: defaultdict(list)
    )  # by the buffer named, views apart
    storage_uses: dict[Buffer, list[Access]] = field(default_factory=lambda: defaultdict(list))  # by the memory's owner
    allocs: dict[Buffer, Place] = field(default_factory=dict)
    by_op: dict[str, list[Place]] = field(default_factory=dict)  # tile operators by name
    symbols: dict[Var, tuple[Place, Expr | None]] = field(default_factory=dict)  # symbolic extents: first use, what is around
    calls: list[tuple[Place, Call]] = field(default_factory=list)
    bitwise: list[tuple[Place, Expr]] = field(default_factory=list)
    divisions: list[tuple[Place, Expr]] = field(default_factory=list)  # // and %, and negations (of which T.ceildiv is made)
    has_unsupported: bool = False
    _memory: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, program: TileProgram) -> Facts:
        facts = cls(program)
        facts._walk(program.body, ())
        return facts

    def ops(self, *names: str) -> list[Place]:
        """The tile operators of these names, in program order."""
        if len(names) == 1:
            return self.by_op.get(names[0], [])
        found = [p for name in dict.fromkeys(names) for p in self.by_op.get(name, ())]
        return sorted(found, key=lambda p: p.order)

    def remembered(self, key: Any, make: Callable[[], T]) -> T:
        """What several rules work out of the same program, made once. What depends on the target has it in its key."""
        if key not in self._memory:
            self._memory[key] = make()
        return self._memory[key]  # type: ignore[no-any-return]

    def is_opaque(self, buffer: Buffer) -> bool:
        return any(a.kind == OPAQUE for a in self.storage_uses.get(buffer.storage(), ()))

    def allocations(self, *scopes: str) -> list[Buffer]:
        """Buffers of these scopes that own their memory, in order."""
        return [b for b in self.allocs if b.scope in scopes and b.view_of is None]

    # -- collecting -------------------------------------------------------------------------------
    def _walk(self, body: Body, parents: tuple[Stmt, ...]) -> None:
        for s in body:
            if isinstance(s, (If, While)) and (has_unknown(s.cond) or is_host_choice(s.cond)):
                self._skip(s, parents)
                continue
            place = Place(s, parents, len(self.places))
            self.places.append(place)
            self._collect(s, place)
            nested = s.bodies()
            if nested:
                around = (*parents, s)
                for inner in nested:
                    self._walk(inner, around)

    def _skip(self, s: Stmt, parents: tuple[Stmt, ...]) -> None:
        """A branch of which nobody knows whether it exists: no rule looks inside, and what it touches is opaque."""
        self.has_unsupported = True
        hidden = Facts(self.program)
        for inner in bodies(s):
            hidden._walk(inner, parents)
        place = Place(s, parents, len(self.places))
        self.places.append(place)
        for buffer in (*hidden.uses, *(b.view_of for b in hidden.allocs if b.view_of is not None)):
            self._add(Access(buffer, OPAQUE, place, s.span))

    def _collect(self, s: Stmt, place: Place) -> None:
        if isinstance(s, Alloc):
            self.allocs[s.buffer] = place
            for extent in s.buffer.shape:
                self._visit(extent, place, False, None)
        elif isinstance(s, TileOp):
            self.by_op.setdefault(s.op, []).append(place)
            self._collect_op(s, place)
        elif isinstance(s, Store):
            self._add(Access(s.buffer, WRITE, place, s.span, indices=s.indices))
        for e in s.expressions():
            self._visit(e, place, False, None)

    def _collect_op(self, s: TileOp, place: Place) -> None:
        spec = OPS.get(s.op)
        known = spec is not None and s.op != "unsupported"
        self.has_unsupported |= not known
        for name, value in s.args.items():
            if not isinstance(value, Region):
                continue
            span = s.arg_spans.get(name) or s.arg_spans.get(_USER_NAMES.get((s.op, name), name)) or value.span or s.span
            kinds = [OPAQUE]
            if known and spec is not None:
                kinds = [READ] * (name in spec.reads) + [WRITE] * (name in spec.writes) or [READ]
            for kind in kinds:
                self._add(Access(value.buffer, kind, place, span, region=value, argument=name))

    def _visit(self, e: Expr, place: Place, guarded: bool, parent: Expr | None) -> None:
        """One expression with all inside it. ``guarded``: it is a side of a T.if_then_else."""
        kind = type(e)
        if kind is Const:
            return
        if kind is Var:
            if e.kind == "dynamic":  # type: ignore[attr-defined]
                self.symbols.setdefault(e, (place, parent))  # type: ignore[arg-type]
        elif isinstance(e, Load):
            self._add(Access(e.buffer, READ, place, e.span or place.stmt.span, indices=e.indices, guarded=guarded))
            for index in e.indices:
                self._visit(index, place, guarded, e)
        elif isinstance(e, Binary):
            if e.op in BITWISE:
                self.bitwise.append((place, e))
            elif e.op in ("floordiv", "floormod"):
                self.divisions.append((place, e))
            self._visit(e.a, place, guarded, e)
            self._visit(e.b, place, guarded, e)
        elif isinstance(e, Unary):
            if e.op == "bitnot":
                self.bitwise.append((place, e))
            elif e.op == "neg":
                self.divisions.append((place, e))
            self._visit(e.a, place, guarded, e)
        elif isinstance(e, Cast):
            self._visit(e.a, place, guarded, e)
        elif isinstance(e, Select):
            self._visit(e.cond, place, guarded, e)
            self._visit(e.then, place, True, e)
            self._visit(e.other, place, True, e)
        elif isinstance(e, Call):
            self._visit_call(e, place, guarded)

    def _visit_call(self, e: Call, place: Place, guarded: bool) -> None:
        self.calls.append((place, e))
        pure = e.op in _PURE_CALLS
        for argument in e.args:
            if isinstance(argument, (Buffer, Region)):
                buffer = argument if isinstance(argument, Buffer) else argument.buffer
                self._add(Access(buffer, OPAQUE, place, e.span))
            elif isinstance(argument, Load) and not pure:
                self._add(Access(argument.buffer, OPAQUE, place, argument.span, indices=argument.indices))
                for index in argument.indices:
                    self._visit(index, place, guarded, argument)
            elif isinstance(argument, Expr):
                self._visit(argument, place, guarded, e)

    def _add(self, access: Access) -> None:
        self.uses[access.buffer].append(access)
        self.storage_uses[access.buffer.storage()].append(access)


# Scalar functions that use the values of their arguments and nothing else; any other call may take addresses.
_PURE_CALLS = frozenset(
    (
        "exp",
        "exp2",
        "exp10",
        "log",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "rsqrt",
        "tanh",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "atan2",
        "abs",
        "fabs",
        "floor",
        "ceil",
        "round",
        "trunc",
        "nearbyint",
        "sigmoid",
        "erf",
        "pow",
        "power",
        "fmod",
        "max",
        "min",
        "infinity",
        "isnan",
        "isinf",
        "isfinite",
        "clamp",
        "popcount",
        "clz",
        "copysign",
        "hypot",
        "ldexp",
        "nextafter",
        "if_then_else",
        "likely",
        "max_value",
        "min_value",
        "reinterpret",
        "bitwise_not",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "shift_left",
        "shift_right",
        "truncdiv",
        "truncmod",
        "floordiv",
        "floormod",
        "ceildiv",
        "cdiv",
        "fma",
        "__exp",
        "__exp2",
        "__log",
        "__log2",
        "__log10",
        "__sin",
        "__cos",
        "__tan",
    )
)

_USER_NAMES = {
    ("fill", "dst"): "buffer",
    ("clear", "dst"): "buffer",
    ("reduce", "src"): "buffer",
    ("reduce", "dst"): "out",
    ("mbarrier_wait_parity", "mbar"): "mbarrier",
    ("mbarrier_arrive", "mbar"): "mbarrier",
    ("mbarrier_expect_tx", "mbar"): "mbarrier",
    ("atomic", "src"): "value",
}


def argument_span(op: TileOp, name: str) -> Span | None:
    """Where an argument was written, else the call."""
    value = op.args.get(name)
    return (
        op.arg_spans.get(name)
        or op.arg_spans.get(_USER_NAMES.get((op.op, name), name))
        or (value.span if isinstance(value, Region) else None)
        or op.span
    )


def static_ints(values: Any) -> tuple[int, ...] | None:
    """All as integers, or None."""
    found = tuple(const_int(v) for v in values)
    return None if any(v is None for v in found) else found  # type: ignore[return-value]


def thread_count(launch: Launch | None) -> int | None:
    """The threads of a block that can exist; how many others there are is nobody's business but ``threads-range``'s."""
    extents = static_ints(launch.threads) if launch is not None else None
    total = None if extents is None else extents[0] * extents[1] * extents[2]
    return total if total is not None and total <= MAX_THREADS else None


def is_runtime(e: Any) -> bool:
    """An extent known at run time only; False if it is a literal, or if nothing is known about it."""
    if not isinstance(e, Expr) or has_unknown(e) or const_int(e) is not None:
        return False
    variables = [x for x in walk_expr(e) if isinstance(x, Var)]
    return any(v.kind in ("dynamic", "param", "block", "loop", "thread") for v in variables) and all(
        v.kind != "const" for v in variables
    )


def has_jump(body: Body) -> bool:
    """Whether a loop's iterations may be cut short."""
    return any(isinstance(s, Jump) or any(has_jump(b) for b in bodies(s)) for s in body)


__all__ = [
    "OPAQUE",
    "READ",
    "WRITE",
    "Access",
    "Facts",
    "Parallel",
    "Place",
    "argument_span",
    "depends_on_threads",
    "has_jump",
    "is_runtime",
    "static_ints",
    "thread_count",
]
