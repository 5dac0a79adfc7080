"""Statements of the tile program.

A body is a tuple of statements. Statements are never changed once made and compare by identity; every one has the span of the
user's statement it came from, which lowering hands on, so that each line of output can be traced to a source line.
"""
from __future__ import annotations

from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.span import Span
from .buffer import Buffer, Region
from .expr import Expr, Var

Body = tuple["Stmt", ...]


@dataclass(eq=False, repr=False)
class Stmt:
    span: Span | None

    def __repr__(self) -> str:
        from .printer import head_text

        return f"<{type(self).__name__} {head_text(self)}>"

    def bodies(self) -> tuple[Body, ...]:
        """The nested bodies."""
        return ()

    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it holds itself, region bounds included."""
        return ()


@dataclass(eq=False, repr=False)
class Alloc(Stmt):
    """A buffer comes into being here (its scope says where)."""

    buffer: Buffer


@dataclass(eq=False, repr=False)
class Let(Stmt):
    """``var`` names the value from here to the end of the enclosing body."""

    var: Var
    value: Expr

    def expressions(self) -> tuple[Expr, ...]:
        return (self.value,)


@dataclass(eq=False, repr=False)
class Store(Stmt):
    """``buffer[indices] = value``; the value has the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr

    def expressions(self) -> tuple[Expr, ...]:
        return (*self.indices, self.value)


@dataclass(eq=False, repr=False)
class For(Stmt):
    """``for var in range(start, start + extent * step, step)``.

    ``kind``: ``serial``, ``unroll``, ``vectorized`` or ``pipelined`` (attrs ``num_stages``, ``order``, ``stage``,
    ``group``), after lowering also ``parallel_cpu`` (iterations run on CPU threads).
    """

    var: Var
    start: Expr
    extent: Expr
    body: Body
    kind: str = "serial"
    step: int = 1
    attrs: dict[str, Any] = field(default_factory=dict)

    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.start, self.extent)


@dataclass(eq=False, repr=False)
class Parallel(Stmt):
    """``T.Parallel``: the iterations of a box, in no order, spread over the block's threads. Bounds start at 0."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Body
    attrs: dict[str, Any] = field(default_factory=dict)

    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def expressions(self) -> tuple[Expr, ...]:
        return self.extents


@dataclass(eq=False, repr=False)
class While(Stmt):
    cond: Expr
    body: Body

    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.cond,)


@dataclass(eq=False, repr=False)
class If(Stmt):
    cond: Expr
    then: Body
    other: Body = ()

    def bodies(self) -> tuple[Body, ...]:
        return (self.then, self.other)

    def expressions(self) -> tuple[Expr, ...]:
        return (self.cond,)


@dataclass(eq=False, repr=False)
class Role(If):
    """Code of a group of threads, those from ``low`` up to ``high`` (not included), laid out over the group. No other branch."""

    low: int = 0
    high: int = 0


@dataclass(eq=False, repr=False)
class Jump(Stmt):
    """``break``, ``continue`` or ``return`` (leave the kernel)."""

    kind: str


@dataclass(eq=False, repr=False)
class TileOp(Stmt):
    """A tile operator or synchronisation, by TileLang's name; the table of operands is in ``tilec/ir/ops.py``.

    ``args`` holds Regions, Exprs, strings, numbers or None by parameter name; ``arg_spans`` where each was written.
    """

    op: str
    args: dict[str, Any]
    arg_spans: dict[str, Span] = field(default_factory=dict)

    def region(self, name: str) -> Region:
        value = self.args[name]
        assert isinstance(value, Region), (self.op, name, value)
        return value

    def expressions(self) -> tuple[Expr, ...]:
        found: list[Expr] = []
        for value in self.args.values():
            if isinstance(value, Region):
                found += value.mins
                found += value.extents
            elif isinstance(value, Expr):
                found.append(value)
        return tuple(found)


@dataclass(eq=False, repr=False)
class Evaluate(Stmt):
    """A scalar call for its effect (printing, thread synchronisation with a value, lowered intrinsics)."""

    value: Expr

    def expressions(self) -> tuple[Expr, ...]:
        return (self.value,)


@dataclass(eq=False, repr=False)
class Launch(Stmt):
    """``with T.Kernel(*grid, threads=...) as block_vars``: the body runs once per block of the grid.

    ``threads``: three extents (x, y, z). ``attrs``: ``cluster_dims``, ``layouts`` ({Buffer: layout} of annotate_layout),
    ``rasterization`` (("row" | "column", panel_size) of use_swizzle), ``min_blocks_per_sm``, ``l2_hit_ratio``,
    ``safe_values`` ({Buffer: Expr}), ``explicit_threads`` (False if the default of 128 was taken),
    ``thread_vars`` (the Vars a body uses for threadIdx.x/y/z, kind "thread").
    """

    grid: tuple[Expr, ...]
    block_vars: tuple[Var, ...]
    threads: tuple[Expr, Expr, Expr]
    body: Body
    attrs: dict[str, Any] = field(default_factory=dict)

    def bodies(self) -> tuple[Body, ...]:
        return (self.body,)

    def expressions(self) -> tuple[Expr, ...]:
        return (*self.grid, *self.threads)


def bodies(s: Stmt) -> tuple[Body, ...]:
    """The nested bodies of a statement."""
    return s.bodies()


def walk(body: Body) -> list[Stmt]:
    """Every statement, in program order, parents before children."""
    found: list[Stmt] = []
    _gather(body, found)
    return found


def _gather(body: Body, found: list[Stmt]) -> None:
    for s in body:
        found.append(s)
        for inner in s.bodies():
            _gather(inner, found)


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions a statement holds itself (not those of nested statements), region bounds included."""
    return s.expressions()


def map_body(body: Body, fn) -> Body:
    """Rebuild bottom-up: ``fn(stmt)`` gets each statement with its new children, returns a Stmt, a tuple, or None to drop it."""
    from dataclasses import replace

    out: list[Stmt] = []
    for s in body:
        if isinstance(s, (For, Parallel, While, Launch)):
            inner = map_body(s.body, fn)
            s = s if inner is s.body else replace(s, body=inner)
        elif isinstance(s, If):
            then, other = map_body(s.then, fn), map_body(s.other, fn)
            s = s if then is s.then and other is s.other else replace(s, then=then, other=other)
        result = fn(s)
        if isinstance(result, tuple):
            out.extend(result)
        elif result is not None:
            out.append(result)
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body)) else tuple(out)
