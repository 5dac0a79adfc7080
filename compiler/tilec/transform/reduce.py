"""Reductions of whole fragments: registers first, then lanes of a warp, then warps through shared memory."""
from __future__ import annotations

from ..analysis.bounds import Ranges
from ..analysis.digits import same_placement
from ..analysis.layout import REGISTER, THREAD, Digit, FragmentLayout
from ..ir.buffer import FRAGMENT, Buffer
from ..ir.build import binary, call, cast, const, select
from ..ir.expr import Expr, Load, Var
from ..ir.stmt import Alloc, Body, For, If, Parallel, Stmt, Store, TileOp
from ..records import dataclass
from .context import LaunchState
from .cpu.reduce import combine, identity
from .layouts import without_dimension
from .parallel import lower_parallel
from .unit import unit
from .warp import shuffle_xor

WARP = 32


def lower_reduction(op: TileOp, state: LaunchState) -> list[Stmt]:
    src, dst = op.region("src").buffer, op.region("dst").buffer
    layout = without_dimension(state.layouts[src], op.args["dim"])
    if same_placement(layout, state.layouts[dst]):
        state.layouts[dst] = layout
        return Reduction(op, src, dst, state).lower()
    own = Buffer(state.passes.fresh(dst.name), dst.shape, dst.dtype, FRAGMENT, op.span)
    state.layouts[own] = layout
    variables = tuple(Var("int32", op.span, f"i{k}", "loop") for k in range(dst.ndim))
    copy = Parallel(op.span, variables, dst.shape, (Store(op.span, dst, variables, Load(own.dtype, op.span, own, variables)),))
    return [Alloc(op.span, state.registers_of(own)), *Reduction(op, src, own, state).lower(),
            *lower_parallel(copy, state.layouts[dst], state, Ranges())]


@dataclass
class Reduction:
    op: TileOp
    src: Buffer
    dst: Buffer
    state: LaunchState

    def __post_init__(self) -> None:
        self.dim: int = self.op.args["dim"]
        self.kind: str = self.op.args["kind"]
        self.nan = self.op.args.get("nan_propagate") is True
        self.layout: FragmentLayout = self.state.layouts[self.src]
        self.result: FragmentLayout = self.state.layouts[self.dst]
        self.counters = {d: Var("int32", None, f"r{k}", "loop") for k, d in enumerate(d for d in self.layout.digits if d.axis == REGISTER)}
        self.registers = self.state.registers_of(self.dst)

    def lower(self) -> list[Stmt]:
        lanes, groups = self._exchanges()
        first = unit(self._guarded((*self._in_registers(), *self._over_lanes(lanes))), self.op.span)
        return [first, *self._over_warps(groups, lanes)] if groups else [first]

    def _guarded(self, body: Body) -> Body:
        if self.layout.threads >= self.state.threads:
            return body
        return (If(self.op.span, binary("lt", self.state.thread, const(self.layout.threads)), body),)

    # -- registers -------------------------------------------------------------------------------------------------------------
    def _loops(self, digits: list[Digit], body: Body) -> Body:
        for d in reversed(digits):
            body = (For(self.op.span, self.counters[d], const(0), const(d.extent), body, "unroll"),)
        return body

    def _kept(self) -> list[Digit]:
        return [d for d in self.counters if d.dim != self.dim]

    def _index(self, dim: int) -> Expr:
        """The element's index along a dimension of the source, for this thread and these counters."""
        total: Expr = const(0)
        for d in self.layout.digits:
            if d.dim == dim:
                value: Expr = self.counters[d] if d.axis == REGISTER else self.state.thread // d.scale % d.extent
                total = total + value * d.stride
        return total

    def _place(self) -> Expr:
        """The result's register for these counters."""
        total: Expr = const(0)
        for d in self._kept():
            dim = d.dim - (d.dim > self.dim)
            mine = next(x for x in self.result.digits if x.axis == REGISTER and (x.dim, x.stride) == (dim, d.stride))
            total = total + self.counters[d] * mine.scale
        return total

    def _in_registers(self) -> Body:
        work = self.dst.dtype
        number: Expr = const(0)
        for d, var in self.counters.items():
            number = number + var * d.scale
        source = self.state.registers_of(self.src)
        value = cast(Load(source.dtype, None, source, (number,)), work)
        if self.kind.startswith("abs"):
            value = call("abs", (value,), work)
        condition = self._inside(range(len(self.layout.shape)))
        if condition is not None:
            value = select(condition, value, const(identity(self.kind, work), work))
        place = (self._place(),)
        start = Store(self.op.span, self.registers, place, const(identity(self.kind, work), work))
        update = Store(self.op.span, self.registers, place, combine(self.kind, Load(work, None, self.registers, place), value, self.nan))
        reduced = [d for d in self.counters if d.dim == self.dim]
        return self._loops(self._kept(), (start, *self._loops(reduced, (update,))))

    def _inside(self, dims) -> Expr | None:
        condition: Expr | None = None
        for dim in dims:
            if self.layout.covered()[dim] > self.layout.shape[dim]:
                one = binary("lt", self._index(dim), const(self.layout.shape[dim]))
                condition = one if condition is None else binary("and", condition, one)
        return condition

    # -- threads ---------------------------------------------------------------------------------------------------------------
    def _exchanges(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The thread digits of the reduced dimension as (scale, extent): those within a warp, and those across."""
        lanes: list[tuple[int, int]] = []
        groups: list[tuple[int, int]] = []
        whole_warps = self.state.threads % WARP == 0 and self.layout.threads == self.state.threads
        for d in self.layout.digits:
            if d.axis != THREAD or d.dim != self.dim or d.extent == 1:
                continue
            binary_digit = not (d.scale & (d.scale - 1)) and not (d.extent & (d.extent - 1))
            if not whole_warps or not binary_digit or d.scale >= WARP:
                groups.append((d.scale, d.extent))
            elif d.scale * d.extent <= WARP:
                lanes.append((d.scale, d.extent))
            else:
                lanes.append((d.scale, WARP // d.scale))
                groups.append((WARP, d.scale * d.extent // WARP))
        return lanes, groups

    def _over_lanes(self, lanes: list[tuple[int, int]]) -> Body:
        place = (self._place(),)
        steps: list[Stmt] = []
        for scale, extent in lanes:
            offset = scale * extent // 2
            while offset >= scale:
                mine = Load(self.dst.dtype, None, self.registers, place)
                steps.append(Store(self.op.span, self.registers, place, combine(self.kind, mine, shuffle_xor(mine, offset), self.nan)))
                offset //= 2
        return self._loops(self._kept(), tuple(steps)) if steps else ()

    def _over_warps(self, groups: list[tuple[int, int]], lanes: list[tuple[int, int]]) -> list[Stmt]:
        span, work = self.op.span, self.dst.dtype
        count = 1
        group: Expr = const(0)
        for scale, extent in groups:
            group = group * extent + self.state.thread // scale % extent
            count *= extent
        shape = self.dst.static_shape()
        assert shape is not None
        shared = self.state.temporary_shared(f"{self.dst.name}_partial", (count, *shape), work, span)
        kept = [d for d in range(len(self.layout.shape)) if d != self.dim]
        index = tuple(self._index(d) for d in kept) or (const(0),)
        place = (self._place(),)
        inside = self._inside(kept)

        def bounded(body: Body) -> Body:
            return body if inside is None else (If(span, inside, body),)

        once: Expr | None = None
        for scale, extent in [*((r.scale, r.extent) for r in self.layout.replicas), *lanes]:
            one = binary("eq", self.state.thread // scale % extent, const(0))
            once = one if once is None else binary("and", once, one)
        write: Body = self._loops(self._kept(), bounded((Store(span, shared, (group, *index), Load(work, None, self.registers, place)),)))
        if once is not None:
            write = (If(span, once, write),)
        g = Var("int32", None, "g", "loop")
        other = Load(work, None, shared, (g, *index))
        update = Store(span, self.registers, place, combine(self.kind, Load(work, None, self.registers, place), other, self.nan))
        read = self._loops(self._kept(), bounded((
            Store(span, self.registers, place, Load(work, None, shared, (const(0), *index))),
            For(span, g, const(1), const(count - 1), (update,), "unroll" if count <= 16 else "serial"))))
        return [Alloc(span, shared), unit(self._guarded(write), span), unit(self._guarded(read), span)]
