"""Layout inference: where fragments live, how parallel loops are shared out, how shared tiles are stored."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..analysis.bounds import Ranges
from ..analysis.digits import LoopDigits, fragment_access, projected, pulled_back, replicated, same_placement
from ..analysis.layout import REGISTER, THREAD, Digit, FragmentLayout, Replica
from ..analysis.partition import row_major_partition, widest_vector
from ..ir import dtypes
from ..ir.buffer import FRAGMENT, TMEM, Buffer, Region, whole
from ..ir.build import binary, const_int
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, For, Launch, Parallel, Role, Stmt, Store, TileOp, bodies, expressions
from ..ir.stmt import walk as walk_statements
from ..records import dataclass
from .bulk.tensor_map import bulk_layout
from .context import LaunchState, PassContext
from .expand import over_tile
from .legalize import resolve_elements
from .matrix.layouts import accumulator_layout, operand_layout
from .matrix.shape import MATRIX_OPS, matrix_shape
from .matrix.shared import required_shared_layout
from .matrix.tensor_memory import copy_fragment_layout
from .own_copies import find_own_copies
from .rewrite import map_children
from .uses import buffers_in

_REPLICATE_LIMIT = 256  # elements of a fragment that no tile operator touches, up to which every thread keeps a copy


def infer_layouts(program: TileProgram, ctx: PassContext) -> TileProgram:
    out: list[Stmt] = []
    for number, s in enumerate(program.body):
        out.append(_launch(s, ctx.state(number, s)) if isinstance(s, Launch) else s)
    return replace(program, body=tuple(out))


def _launch(s: Launch, state: LaunchState) -> Launch:
    from .widen import widened

    s = replace(s, body=widened(_matrix_operands(s.body, state), state))
    find_own_copies(s, state)
    Inference(s.body, state).run()
    _shared_tiles(s, state)
    return s


# -- matrix operands ---------------------------------------------------------------------------------------------------------
def _matrix_operands(body: Body, state: LaunchState) -> Body:
    """Fix the layouts that matrix operations demand. A fragment that two of them want differently is copied for the second."""
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, TileOp) and s.op in MATRIX_OPS:
            out += _matrix_op(s, state)
        elif isinstance(s, TileOp) and s.op == "copy" and TMEM in (s.region("src").buffer.scope, s.region("dst").buffer.scope):
            out += _tensor_copy(s, state)
        else:
            mine = state.for_role(s.low, s.high) if isinstance(s, Role) else state
            out.append(map_children(s, lambda inner, mine=mine: _matrix_operands(inner, mine)))  # type: ignore[misc]
    return tuple(out)


def _matrix_op(op: TileOp, state: LaunchState) -> Body:
    matrix_shape(op)  # refuses what does not fit together
    before: list[Stmt] = []
    after: list[Stmt] = []
    for which in ("A", "B", "C"):
        region = op.region(which)
        if region.buffer.scope != FRAGMENT:
            continue
        wanted = (accumulator_layout(op, state.threads, state.target) if which == "C"
                  else operand_layout(op, which, state.threads, state.target))
        known = state.layouts.get(region.buffer)
        if region.is_whole() and region.buffer.view_of is None and (known is None or known == wanted):
            state.layouts[region.buffer] = wanted
            continue
        own = Buffer(state.passes.fresh(region.buffer.name), region.extents[-2:], region.dtype, FRAGMENT, region.span)
        state.layouts[own] = wanted
        state.passes.note(f"{region.buffer.name} is exchanged between threads for a T.{op.op} that needs it laid out differently")
        before += [Alloc(op.span, own), _between(op, region, own, state, False)]
        if which == "C":
            after.append(_between(op, region, own, state, True))
        op = replace(op, args={**op.args, which: whole(own, region.span), "asynchronous": False})
    return (*before, op, *after)


def _between(op: TileOp, region: Region, own: Buffer, state: LaunchState, back: bool) -> Stmt:
    lead = region.mins[:-2]

    def make(p: tuple[Expr, ...]) -> Body:
        place = (*lead, region.mins[-2] + p[0], region.mins[-1] + p[1])
        if back:
            return (Store(op.span, region.buffer, place, Load(own.dtype, None, own, p)),)
        return (Store(op.span, own, p, Load(own.dtype, None, region.buffer, place)),)

    return resolve_elements((over_tile(op, own.shape, make, state.passes),))[0]


def _tensor_copy(op: TileOp, state: LaunchState) -> Body:
    """Copies of tensor memory fix the fragment's layout too."""
    reads = op.region("src").buffer.scope == TMEM
    which = "dst" if reads else "src"
    region = op.region(which)
    wanted = copy_fragment_layout(op, state.threads)
    known = state.layouts.get(region.buffer)
    if region.is_whole() and region.buffer.view_of is None and (known is None or known == wanted):
        state.layouts[region.buffer] = wanted
        return (op,)
    own = Buffer(state.passes.fresh(region.buffer.name), region.extents[-2:], region.dtype, FRAGMENT, region.span)
    state.layouts[own] = wanted
    inner = replace(op, args={**op.args, which: whole(own, region.span)})
    if reads:
        return (Alloc(op.span, own), inner, _between(op, region, own, state, True))
    return (Alloc(op.span, own), _between(op, region, own, state, False), inner)


# -- loops and fragments -------------------------------------------------------------------------------------------------------
@dataclass
class _Access:
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool


def fragment_accesses(body: Body) -> list[_Access]:
    found: list[_Access] = []
    for s in walk_statements(body):
        if isinstance(s, Store) and s.buffer.scope == FRAGMENT:
            found.append(_Access(s.buffer, s.indices, True))
        if isinstance(s, TileOp) and s.op == "atomic" and s.region("dst").buffer.scope == FRAGMENT:
            found.append(_Access(s.region("dst").buffer, s.region("dst").mins, True))
        for e in expressions(s):
            for part in walk_expr(e):
                if isinstance(part, Load) and part.buffer.scope == FRAGMENT:
                    found.append(_Access(part.buffer, part.indices, False))
    return found


class Inference:
    """Runs to a fixed point: known layouts decide loops, loops decide the layouts of their other fragments."""

    def __init__(self, body: Body, state: LaunchState) -> None:
        self.state = state
        self.loops: list[Parallel] = []
        self.reductions: list[TileOp] = []
        self.order: list[Stmt] = []
        self.fragments: list[Buffer] = []
        self.roles: list[Role] = []
        self.around: list[For] = []  # loops around parallel ones
        self._collect(body)

    def _collect(self, body: Body) -> None:
        for s in body:
            if isinstance(s, Alloc) and s.buffer.scope == FRAGMENT:
                self.fragments.append(s.buffer)
            if isinstance(s, Role):
                self.roles.append(s)
            elif isinstance(s, Parallel):
                self.loops.append(s)
                self.order.append(s)
                self.state.keep.append(s)
            elif isinstance(s, TileOp) and s.op == "reduce":
                self.reductions.append(s)
                self.order.append(s)
            else:
                if isinstance(s, For):
                    self.around.append(s)
                for inner in bodies(s):
                    self._collect(inner)

    def run(self) -> None:
        for role in self.roles:
            Inference(role.then, self.state.for_role(role.low, role.high)).run()
        self._spread()
        for s in self.order:
            if self._undecided(s):
                self._decide(s)
                self._spread()
        for b in self.fragments:
            if b not in self.state.layouts:
                self.state.layouts[b] = self._leftover(b)
        for loop in self.loops:
            self.state.loop_layouts[id(loop)] = self._final(loop)

    def _spread(self) -> None:
        changed = True
        while changed:
            changed = False
            for loop in self.loops:
                changed |= self._from_loop(loop, self._known_layout(loop))
            for op in self.reductions:
                source = self.state.layouts.get(op.region("src").buffer)
                target = op.region("dst").buffer
                if source is not None and target not in self.state.layouts:
                    self.state.layouts[target] = without_dimension(source, op.args["dim"])
                    changed = True

    def _known_layout(self, loop: Parallel) -> FragmentLayout | None:
        """The layout that the fragments already decided give a loop: the one under which most accesses stay in a thread."""
        extents = static_extents(loop)
        if extents is None or needs_every_thread(loop, self.state):
            return None
        accesses = fragment_accesses(loop.body)
        best: tuple[Any, FragmentLayout] | None = None
        for a in accesses:
            layout = self.state.layouts.get(a.buffer)
            found = None if layout is None else pulled_back(layout, a.indices, loop.vars, extents, self._ranges(loop))
            if layout is None or found is None or not self._fits(loop, layout, found, a):
                continue
            rank = (self._direct(loop, found, accesses), a.writes, -len(found.replicas))
            if best is None or rank > best[0]:
                best = (rank, found)
        return best[1] if best else None

    def _fits(self, loop: Parallel, layout: FragmentLayout, found: FragmentLayout, a: _Access) -> bool:
        """Whether the threads of a loop laid out after a fragment hold the elements; certain where it goes over the whole of it."""
        if found.shape == layout.shape and all(isinstance(i, Var) or const_int(i) == 0 for i in a.indices):
            return True
        return fragment_access(layout, a.indices, LoopDigits(loop.vars, found, self._ranges(loop))).reads

    def _ranges(self, loop: Parallel) -> Ranges:
        ranges = loop_ranges(loop)
        for s in self.around:
            ranges.set_extent(s.var, s.extent, s.start, s.step)
        return ranges

    def _direct(self, loop: Parallel, layout: FragmentLayout, accesses: list[_Access]) -> int:
        digits = LoopDigits(loop.vars, layout, self._ranges(loop))
        count = 0
        for a in accesses:
            known = self.state.layouts.get(a.buffer)
            if known is not None:
                access = fragment_access(known, a.indices, digits)
                count += access.writes if a.writes else access.reads
        return count

    def _from_loop(self, loop: Parallel, layout: FragmentLayout | None) -> bool:
        if layout is None:
            return False
        changed = False
        for a in fragment_accesses(loop.body):
            if a.buffer in self.state.layouts:
                continue
            shape = a.buffer.static_shape()
            found = None if shape is None else projected(layout, a.indices, loop.vars, shape, self.state.threads)
            if found is not None and found.threads == layout.threads:
                self.state.layouts[a.buffer] = found
                changed = True
        return changed

    def _undecided(self, s: Stmt) -> bool:
        if isinstance(s, TileOp):
            return s.region("src").buffer not in self.state.layouts
        assert isinstance(s, Parallel)
        return any(a.buffer not in self.state.layouts for a in fragment_accesses(s.body))

    def _decide(self, s: Stmt) -> None:
        if isinstance(s, TileOp):
            b = s.region("src").buffer
            self.state.layouts[b] = self._default(b)
            return
        assert isinstance(s, Parallel)
        if needs_every_thread(s, self.state) or static_extents(s) is None:
            return
        self._from_loop(s, default_loop_layout(s, self.state))
        for a in fragment_accesses(s.body):
            if a.buffer not in self.state.layouts and not self._appears_elsewhere(a.buffer, s):
                self.state.layouts[a.buffer] = self._default(a.buffer)

    def _appears_elsewhere(self, b: Buffer, here: Stmt) -> bool:
        return any(other is not here and any(a.buffer is b for a in fragment_accesses(other.body)) for other in self.loops) or any(
            op.region("src").buffer is b for op in self.reductions)

    def _default(self, b: Buffer) -> FragmentLayout:
        shape = b.static_shape()
        assert shape is not None
        vector = widest_vector(shape, self.state.threads, max(1, 128 // max(8, dtypes.bits(b.dtype))))
        return row_major_partition(shape, self.state.threads, vector)

    def _leftover(self, b: Buffer) -> FragmentLayout:
        shape = b.static_shape()
        assert shape is not None
        total = 1
        for e in shape:
            total *= e
        return replicated(shape, self.state.threads) if total <= _REPLICATE_LIMIT else self._default(b)

    def _final(self, loop: Parallel) -> FragmentLayout:
        extents = static_extents(loop)
        if extents is None:
            return FragmentLayout((), (), ())
        if needs_every_thread(loop, self.state):
            return replicated(extents, self.state.threads)
        known = self._known_layout(loop)
        if known is not None and not (known.replicas and updates_memory(loop)):
            return known
        return default_loop_layout(loop, self.state)


def static_extents(loop: Parallel) -> tuple[int, ...] | None:
    extents = tuple(const_int(e) for e in loop.extents)
    return None if any(e is None or e < 1 for e in extents) else extents  # type: ignore[return-value]


def loop_ranges(loop: Parallel) -> Ranges:
    ranges = Ranges()
    for var, extent in zip(loop.vars, loop.extents):
        ranges.set_extent(var, extent)
    for s in walk_statements(loop.body):
        if isinstance(s, For):
            ranges.set_extent(s.var, s.extent, s.start, s.step)
    return ranges


def needs_every_thread(loop: Parallel, state: LaunchState) -> bool:
    """A loop that fills private arrays element by element is run in full by each thread, and so is a tile of one thread."""
    return id(loop) in state.each_thread or not loop.attrs.get("accumulates") and any(isinstance(s, Store) and s.buffer.scope == "local" and any(
        isinstance(x, Var) and x in loop.vars for i in s.indices for x in walk_expr(i)) for s in walk_statements(loop.body))


def updates_memory(loop: Parallel) -> bool:
    """Whether it writes memory that it also reads, or atomically: copies of an iteration would then disturb each other."""
    if loop.attrs.get("accumulates"):
        return True
    read, written = set(), set()
    for s in walk_statements(loop.body):
        if isinstance(s, Store):
            written.add(s.buffer.storage())
        if isinstance(s, TileOp):
            return True
        for e in expressions(s):
            for x in walk_expr(e):
                if isinstance(x, Load):
                    read.add(x.buffer.storage())
                elif getattr(x, "op", "").startswith("atomic_"):
                    return True
    return any(b.scope not in (FRAGMENT, "local", "local.var") for b in read & written)


def default_loop_layout(loop: Parallel, state: LaunchState) -> FragmentLayout:
    extents = static_extents(loop)
    assert extents is not None
    vector = widest_vector(extents, state.threads, vector_limit(loop))
    return row_major_partition(extents, state.threads, vector)


def vector_limit(loop: Parallel) -> int:
    """Elements in 16 bytes of the widest memory access whose neighbours along the last variable are neighbours in memory."""
    if not loop.vars:
        return 1
    last = loop.vars[-1]
    limits = [1]
    sizes = []
    for s in walk_statements(loop.body):
        found = [(s.buffer, s.indices)] if isinstance(s, Store) else []
        for e in expressions(s):
            found += [(x.buffer, x.indices) for x in walk_expr(e) if isinstance(x, Load)]
        for buffer, indices in found:
            if buffer.scope in ("local", "local.var") or not indices:
                continue
            if moves_by_one(indices, last) and dtypes.bits(buffer.dtype) >= 8:
                sizes.append(dtypes.bits(buffer.dtype))
    if sizes:
        limits.append(128 // max(sizes))
    return max(limits)


def moves_by_one(indices: tuple[Expr, ...], var: Var) -> bool:
    from ..ir.affine import linear

    if any(isinstance(x, Var) and x is var for i in indices[:-1] for x in walk_expr(i)):
        return False
    terms, _ = linear(indices[-1])
    mine = [(t, f) for t, f in terms if any(x is var for x in walk_expr(t))]
    return len(mine) == 1 and mine[0][0] is var and mine[0][1] == 1


def without_dimension(layout: FragmentLayout, dim: int) -> FragmentLayout:
    """What is left of a fragment when a dimension is reduced: its threads hold copies of the result."""
    digits: list[Digit] = []
    scale = 1
    keep = [d for d in range(len(layout.shape)) if d != dim]
    for k, old in reversed(list(enumerate(keep))):
        for d in sorted((d for d in layout.digits if d.dim == old), key=lambda d: d.stride):
            if d.axis == REGISTER:
                digits.append(Digit(k, d.extent, d.stride, REGISTER, scale))
                scale *= d.extent
            else:
                digits.append(replace(d, dim=k))
    copies = [Replica(d.extent, d.scale) for d in layout.digits if d.dim == dim and d.axis == THREAD]
    shape = tuple(layout.shape[d] for d in keep) or (1,)
    return FragmentLayout(shape, tuple(digits), (*layout.replicas, *copies))


# -- shared tiles ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Swizzle:
    """Sixteen-byte pieces of a row exchanged by an XOR with the row's number, so that a column of pieces meets all banks."""

    pieces: int
    rows_per_phase: int
    chunk: int  # elements in a piece

    def physical(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Any, ...]:
        *front, row, column = indices
        piece = binary("bitxor", column // self.chunk, (row // self.rows_per_phase) % self.pieces)
        return (*front, row, piece * self.chunk + column % self.chunk)


def swizzle_for(buffer: Buffer) -> Swizzle | None:
    shape = buffer.static_shape()
    bits = dtypes.bits(buffer.dtype)
    if shape is None or len(shape) < 2 or bits < 8 or buffer.view_of is not None:
        return None
    row = shape[-1] * bits // 8
    pieces = 8
    while pieces > 1 and row % (16 * pieces):
        pieces //= 2
    if pieces == 1:
        return None
    return Swizzle(pieces, max(1, 128 // row), 128 // bits)


def _shared_tiles(launch: Launch, state: LaunchState) -> None:
    for b in state.bulk:
        canonical = bulk_layout(b)
        if canonical is not None:
            state.shared_layouts[b] = canonical
    viewed = {b.storage() for b in _all_buffers(launch) if b.view_of is not None}
    for s, threads in _matrix_statements(launch.body, state.threads):
        for which in ("A", "B"):
            b = s.region(which).buffer
            if not b.is_shared():
                continue
            required = required_shared_layout(s, which, threads, state.target)
            if required is not None and b not in state.bulk:
                state.shared_layouts[b] = required
            elif b not in state.shared_layouts and b not in viewed and b not in state.bulk:
                layout = swizzle_for(b)
                if layout is not None:
                    state.shared_layouts[b] = layout
    _conflicting_tiles(launch, state)


def _conflicting_tiles(launch: Launch, state: LaunchState) -> None:
    """Tiles that only loops use are swizzled where their rows meet the same banks."""
    from .bank_conflicts import fewer_turns, tiles_of_loops

    for b, uses in tiles_of_loops(launch.body, state).items():
        if b in state.shared_layouts or b in state.bulk:
            continue
        layout = swizzle_for(b)
        if layout is not None and fewer_turns(b, uses, layout, state):
            state.shared_layouts[b] = layout


def _matrix_statements(body: Body, threads: int) -> list[tuple[TileOp, int]]:
    """The matrix operations and how many threads run each."""
    found: list[tuple[TileOp, int]] = []
    for s in body:
        if isinstance(s, TileOp) and s.op in MATRIX_OPS:
            found.append((s, threads))
        for inner in bodies(s):
            found += _matrix_statements(inner, s.high - s.low if isinstance(s, Role) else threads)
    return found


def _all_buffers(launch: Launch) -> set[Buffer]:
    return buffers_in(launch.body) | {s.buffer for s in walk_statements(launch.body) if isinstance(s, Alloc)}


__all__ = ["Inference", "infer_layouts", "same_placement"]
