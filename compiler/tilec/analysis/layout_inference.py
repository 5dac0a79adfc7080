"""What layout inference decides for the fragments of a kernel, as TileLang 0.1.15 does it, and where it fails.

Products fix their operands first (strict); loops, copies and reductions follow from fragments that have a layout (common);
what is left starts from each operator in turn until one start works (free). Whatever is not modelled exactly makes the
fragments it touches unknown, and nothing is said about them. TileLang: transform/layout_inference, op/parallel.cc, op/reduce.cc.
"""
from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import Any

from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Var
from ..records import dataclass
from .digits import DigitSum, replicated
from .layout import FragmentLayout
from .placement import (
    FINE,
    SCALE,
    TANGLED,
    Space,
    completed,
    contains,
    equal_layouts,
    is_replicated,
    loop_of_buffer,
    planned,
    reduced,
    runs_along_diagonal,
    thread_shape,
    thread_sum,
)
from .tile_loops import Access, LoopOp, Operator, OtherOp, ProductOp, ReduceOp

STRICT, COMMON, FREE = 2, 1, 0

Known = dict[Buffer, "FragmentLayout | None"]  # None: it has a layout that is not known


class Clash(Exception):
    """``kind``: ``product`` (two operators fix one fragment), ``loop`` (a loop cannot serve two fragments), ``reduce``,
    ``serial`` (a serial loop walks a fragment spread over threads), ``constant`` (an index that is a number), ``spread``
    (the threads of a loop leave others out), ``race``
    (iterations of different threads write one element), ``ragged`` (threads would take unequal shares), ``tangled`` (a reduction of a
    layout that does not follow rows). ``fatal``: TileLang gives up at once."""

    def __init__(self, kind: str, operator: Operator, buffer: Buffer, other: Buffer | None = None, fatal: bool = False,
                 access: Access | None = None, variable: Var | None = None, previous: FragmentLayout | None = None,
                 wanted: FragmentLayout | None = None, certain: bool = False) -> None:
        super().__init__(kind)
        self.kind = kind
        self.operator = operator
        self.buffer = buffer
        self.other = other
        self.fatal = fatal
        self.access = access
        self.variable = variable
        self.previous = previous
        self.wanted = wanted
        self.certain = certain  # whatever else is not known
        self.state: State | None = None


@dataclass(eq=False, repr=False)
class State:
    layouts: Known = field(default_factory=dict)
    loops: dict[int, FragmentLayout | None] = field(default_factory=dict)  # by operator; None: not known
    origin: dict[Buffer, Operator | None] = field(default_factory=dict)  # what gave a fragment its layout (None: an annotation)
    source: dict[int, Buffer] = field(default_factory=dict)  # the fragment a loop or reduction follows
    walked: dict[Buffer, tuple[Access, Var]] = field(default_factory=dict)  # layouts that vary with a serial loop
    doubt: bool = False

    def copy(self) -> State:
        return State(dict(self.layouts), dict(self.loops), dict(self.origin), dict(self.source), dict(self.walked), self.doubt)

    def root(self, buffer: Buffer | None) -> tuple[Buffer | None, Operator | None]:
        """The fragment and operator from which a fragment's layout follows."""
        for _ in range(len(self.layouts) + 1):
            operator = self.origin.get(buffer) if buffer is not None else None
            if operator is None or id(operator) not in self.source:
                return buffer, operator
            buffer = self.source[id(operator)]
        return buffer, None


class Inference:
    """``given``: annotated layouts; ``products``: what each product wants of its operands, None where that is not known."""

    def __init__(self, operators: list[Operator], threads: int, given: Known, unknown: set[Buffer],
                 products: dict[int, list[tuple[str, Buffer, FragmentLayout]] | None], vectors: Any, written: Any) -> None:
        self.operators = operators
        self.threads = threads
        self.products = products
        self.vectors = vectors
        self._settled: dict[Any, tuple[Any, bool]] = {}
        self._threads: dict[tuple[FragmentLayout, int], tuple[Any, DigitSum | None]] = {}
        self._contained: dict[tuple[FragmentLayout, FragmentLayout], bool | None] = {}
        self.written = written  # a layout value in digits, or None
        self.state = State(dict(given))
        self.unknown = unknown
        self.final: dict[Buffer, FragmentLayout] = {}  # layouts that are certain in the end
        self.uses: dict[Buffer, list[int]] = {}
        for n, op in enumerate(operators):
            for b in op.buffers():
                if n not in self.uses.setdefault(b, []):
                    self.uses[b].append(n)
        for b in unknown:
            self.state.layouts[b] = None

    # -- levels --------------------------------------------------------------------------------------------------
    def run(self) -> tuple[list[Clash], set[Buffer]]:
        """The fault that ends inference, if any, and the fragments that no operator gives a layout."""
        state = self.state
        try:
            for n in range(len(self.operators)):
                self._step(n, STRICT, state, None)
            self._taint(state)
            queue = deque(range(len(self.operators)))
            self._drain(queue, set(queue), COMMON, state)
            self._check_lowering(state)
        except Clash as clash:
            clash.state = state
            return [clash], set()
        return self._free()

    def _check_lowering(self, state: State) -> None:
        """Loops that inference lets pass and that cannot be spread over the threads afterwards."""
        for op in self.operators:
            layout = state.loops.get(id(op))
            if isinstance(op, LoopOp) and layout is not None and thread_shape(layout) == SCALE and not state.walked:
                source = state.source.get(id(op))
                raise Clash("spread", op, source or op.accesses[0].buffer, access=self._access(op, source), previous=layout)

    def _taint(self, state: State) -> None:
        """Fragments that an operator not understood may place."""
        for op in self.operators:
            if not op.known and not (isinstance(op, OtherOp) and not op.places):
                for b in op.buffers():
                    state.layouts.setdefault(b, None)

    def _drain(self, queue: deque[int], queued: set[int], level: int, state: State) -> None:
        while queue:
            n = queue.popleft()
            queued.discard(n)
            self._step(n, level, state, (queue, queued))

    def _step(self, n: int, level: int, state: State, pending: tuple[deque[int], set[int]] | None) -> None:
        op = self.operators[n]
        for buffer, layout in self._infer(op, level, state):
            state.layouts[buffer] = layout
            state.origin[buffer] = op
            if pending is None:
                continue
            queue, queued = pending
            for user in self.uses.get(buffer, ()):
                if user != n and user not in queued:
                    queued.add(user)
                    queue.appendleft(user)

    def _infer(self, op: Operator, level: int, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        if isinstance(op, ProductOp):
            return self._product(op, state) if level == STRICT else []
        if isinstance(op, ReduceOp):
            return self._reduce(op, state) if level != STRICT else []
        if isinstance(op, LoopOp):
            return self._loop(op, level, state)
        return []

    # -- free mode -----------------------------------------------------------------------------------------------
    def _free(self) -> tuple[list[Clash], set[Buffer]]:
        undefined: set[Buffer] = set()
        self.final = {b: layout for b, layout in self.state.layouts.items() if layout is not None}
        for members in self._components():
            failures: list[Clash] = []
            results: list[State] = []
            doubt = False
            for start in self._starts(members):
                state = self.state.copy()
                try:
                    self._attempt(start, members, state)
                    results.append(state)
                except Clash as clash:
                    clash.state = state
                    if state.doubt and not clash.certain:
                        doubt = True
                    elif clash.fatal:
                        return [clash], set()
                    else:
                        failures.append(clash)
                else:
                    doubt |= state.doubt
            if not results and not doubt and failures:
                return [failures[0]], set()
            if results and not doubt:
                self._agree(results)
                mine = {b for n in members for b in self.operators[n].buffers()}
                undefined |= {b for b in mine if all(b not in r.layouts for r in results)}
        return [], undefined

    def _agree(self, results: list[State]) -> None:
        """Layouts that are the same wherever inference starts; which start is taken depends on the traffic it causes."""
        first, *others = results
        for buffer, layout in first.layouts.items():
            if layout is None or layout is TANGLED or buffer in self.final:
                continue
            found = [r.layouts.get(buffer) for r in others]
            if all(x is not None and equal_layouts(x, layout) for x in found):
                self.final[buffer] = layout

    def _starts(self, members: list[int]) -> list[int]:
        """The operators worth starting from: all that have nothing to decide give the same attempt."""
        open_ones = [n for n in members if isinstance(op := self.operators[n], LoopOp) and op.accesses and id(op) not in self.state.loops]
        first = members[:1] if not open_ones or members[0] not in open_ones else []
        return [*first, *open_ones]

    def _attempt(self, start: int, members: list[int], state: State) -> None:
        queue: deque[int] = deque()
        queued: set[int] = set()
        for n in (start, *(m for m in members if m != start)):
            self._step(n, FREE, state, (queue, queued))
            self._drain(queue, queued, FREE, state)

    def _components(self) -> list[list[int]]:
        leader = list(range(len(self.operators)))

        def find(n: int) -> int:
            while leader[n] != n:
                leader[n] = leader[leader[n]]
                n = leader[n]
            return n

        for users in self.uses.values():
            for n in users[1:]:
                leader[find(n)] = find(users[0])
        groups: dict[int, list[int]] = {}
        for n in range(len(self.operators)):
            groups.setdefault(find(n), []).append(n)
        return [g for g in groups.values() if any(self._matters(self.operators[n]) for n in g)]

    def _matters(self, op: Operator) -> bool:
        return bool(op.buffers())

    # -- operators -----------------------------------------------------------------------------------------------
    def _product(self, op: ProductOp, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        wanted = self.products.get(id(op.stmt))
        if wanted is None or not op.known:
            for b in op.buffers():
                state.layouts[b] = None
            return []
        found: list[tuple[Buffer, FragmentLayout | None]] = []
        for _, buffer, layout in wanted:
            if buffer not in state.layouts:
                found.append((buffer, layout))
            else:
                old = state.layouts[buffer]
                if old is not None and not equal_layouts(old, layout):
                    raise Clash("product", op, buffer, fatal=True, previous=old, wanted=layout)
        twice = {b for k, (b, _) in enumerate(found) if any(b is c for c, _ in found[:k])}
        return [(b, None if b in twice else layout) for b, layout in found]

    def _reduce(self, op: ReduceOp, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        if len(op.buffers()) < 2 or op.src not in state.layouts:
            return []
        src = state.layouts[op.src]
        if src is None or not op.known:
            return self._doubtful(op, state)
        if src is TANGLED:
            if len(op.src.shape) != 2:
                return self._doubtful(op, state)
            raise Clash("tangled", op, op.src, certain=True)
        wanted = reduced(src, op.dim)
        if op.dst not in state.layouts:
            state.source[id(op)] = op.src
            return [(op.dst, wanted)]
        old = state.layouts[op.dst]
        if old is None:
            return self._doubtful(op, state)
        if len(old.shape) != len(wanted.shape) or old.shape != wanted.shape:
            return []
        if self._inside(old, wanted) is False:
            raise Clash("reduce", op, op.dst, op.src, previous=old, wanted=wanted)
        return []

    def _inside(self, small: FragmentLayout, large: FragmentLayout) -> bool | None:
        """Whether every holder of an element under ``small`` holds it under ``large``."""
        if (small, large) not in self._contained:
            space = Space([(Var("int32", None, "i", "loop"), e) for e in small.shape], (), {})
            own = space.own()
            self._contained[small, large] = contains(self._thread(small, own), large, own)
        return self._contained[small, large]

    def _thread(self, layout: FragmentLayout, indices: Any) -> DigitSum | None:
        """:func:`thread_sum`, kept: the starts that are tried share most layouts."""
        key = (layout, id(indices))
        if key not in self._threads:
            self._threads[key] = (indices, thread_sum(layout, indices))
        return self._threads[key][1]

    def _doubtful(self, op: Operator, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        state.doubt = True
        return [(b, None) for b in op.buffers() if b not in state.layouts]

    def _loop(self, op: LoopOp, level: int, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        if id(op) in state.loops or not op.accesses:
            return []
        if level == STRICT:
            return self._scalars(op, state) if op.known else []
        if any(len(a.indices) != a.buffer.ndim for a in op.accesses):  # a fault told elsewhere
            return self._give_up(op, state)
        for a in op.accesses:
            if a.buffer in state.layouts and a.indices and (const_int(a.indices[0]) or 0) > 0:
                raise Clash("constant", op, a.buffer, fatal=True, access=a)
        if not op.known or any(a.buffer in state.layouts and state.layouts[a.buffer] is None for a in op.accesses):
            return self._give_up(op, state)
        if any(state.layouts.get(a.buffer) is TANGLED for a in op.accesses):
            return self._follow_tangled(op, state)
        source = self._source(op, state)
        chosen: tuple[FragmentLayout, list[int]] | None
        if op.layout is not None:
            chosen = self._annotated(op)
            source = None
        elif source is not None:
            chosen = self._from_buffer(op, source, state)
        elif level == FREE and self._served(op, state):
            state.loops[id(op)] = None
            return []
        elif level == FREE:
            chosen = self._choose(op, state)
        else:
            return []
        if chosen is None:
            return self._give_up(op, state)
        return self._settle(op, chosen, source, state)

    def _annotated(self, op: LoopOp) -> tuple[FragmentLayout, list[int]] | None:
        layout = self.written(op.layout)
        return (layout, []) if layout is not None and layout.shape == op.space.extents else None

    def _follow_tangled(self, op: LoopOp, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        """A loop over the same elements in the same order goes along; anything else is not known."""
        if not all(op.is_common(a) and a.buffer.static_shape() == op.space.extents for a in op.accesses):
            return self._give_up(op, state)
        if any(state.layouts.get(a.buffer, TANGLED) is not TANGLED for a in op.accesses):
            return self._give_up(op, state)
        state.loops[id(op)] = TANGLED
        return [(a.buffer, TANGLED) for a in op.accesses if a.buffer not in state.layouts]

    def _give_up(self, op: LoopOp, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        state.loops[id(op)] = None
        return self._doubtful(op, state)

    def _scalars(self, op: LoopOp, state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        found: list[tuple[Buffer, FragmentLayout | None]] = []
        for a in op.accesses:
            if a.buffer in state.layouts:
                continue
            values = [const_int(i) for i in a.indices]
            if any(values):
                raise Clash("constant", op, a.buffer, fatal=True, access=a)
            shape = a.buffer.static_shape()
            if all(v == 0 for v in values) and shape is not None:
                found.append((a.buffer, replicated(shape, self.threads)))
        return found

    def _source(self, op: LoopOp, state: State) -> Buffer | None:
        """The fragment that decides who runs which iteration; the last one written, else the first read that is not replicated."""
        source: Buffer | None = None
        written = False
        for a in op.accesses:
            layout = state.layouts.get(a.buffer)
            if layout is None:
                continue
            if a.writes:
                source, written = a.buffer, True
            elif source is None and not layout.replicas:
                source = a.buffer
        return source if written or self._propagates(op) else None

    def _propagates(self, op: LoopOp) -> bool:
        constant = [a for a in op.accesses if all(const_int(i) is not None for i in a.indices)]
        return not constant or len(op.accesses) > len(constant)

    def _from_buffer(self, op: LoopOp, buffer: Buffer, state: State) -> tuple[FragmentLayout, list[int]] | None:
        access = next(a for a in op.accesses if a.buffer is buffer)
        layout = state.layouts[buffer]
        assert layout is not None
        if op.is_common(access):  # the fragment's own layout, however far the loop runs
            found: tuple[FragmentLayout, list[int]] | None = (layout, [])
        else:
            found = loop_of_buffer(layout, access.sums, op.space)
            if found is None and runs_along_diagonal(layout, access.sums):
                raise Clash("spread", op, buffer, fatal=True, access=access, previous=layout)
        if found is None:
            return None
        if buffer in state.walked:
            earlier, variable = state.walked[buffer]
            if thread_shape(layout) != FINE:
                raise Clash("serial", op, earlier.buffer, fatal=True, access=earlier, variable=variable)
            return None
        inside = [n for n in found[1] if self._is_inside(op, n)]
        if inside:
            raise Clash("serial", op, buffer, access=access, variable=op.space.variables[inside[0]])
        return found

    def _is_inside(self, op: LoopOp, number: int) -> bool:
        """Whether a serial loop stands in the body of the parallel one."""
        return number - op.space.loop_rank < op.inner

    def _choose(self, op: LoopOp, state: State) -> tuple[FragmentLayout, list[int]] | None:
        """Without a deciding fragment: TileLang's own split, or that of a replicated fragment that is read."""
        plan = self._plan(op)
        reads = [a for a in op.accesses if state.layouts.get(a.buffer) is not None]
        if not reads or not self._propagates(op):
            return None if plan is None else (plan, [])
        if plan is not None and all(is_replicated(state.layouts[a.buffer]) for a in reads):  # type: ignore[arg-type]
            # both splits serve; which one is taken depends on how registers are addressed
            return None if any(m.writes for m in op.memory) else (plan, [])
        return None

    def _plan(self, op: LoopOp) -> FragmentLayout | None:
        """None if the width of its vectors is not known and matters."""
        total = 1
        for e in op.space.extents:
            total *= e
        if total > self.threads and total % self.threads:
            raise Clash("ragged", op, op.accesses[0].buffer, access=op.accesses[0])
        width = self.vectors.of(op)
        found = [planned(op.space.extents, self.threads, self._narrowed(w, total)) for w in ((1, 2, 4, 8, 16) if width is None else (width,))]
        if any(f is None for f in found) or any(f is not found[0] for f in found):
            return None
        return found[0]

    def _narrowed(self, vector: int, total: int) -> int:
        while vector > 1 and total % (self.threads * vector):
            vector //= 2
        return vector

    def _served(self, op: LoopOp, state: State) -> bool:
        """Whether a loop that only reads fragments, all placed, can follow the one with the most indices."""
        reads = [a for a in op.accesses if state.layouts.get(a.buffer) is not None]
        if len(reads) != len(op.accesses) or any(a.writes for a in reads):
            return False
        main = max(reads, key=lambda a: len(a.indices))
        layout = state.layouts[main.buffer]
        assert layout is not None
        found = (layout, []) if op.is_common(main) else loop_of_buffer(layout, main.sums, op.space)
        if found is None or found[1] or main.buffer in state.walked or thread_shape(found[0]) != FINE:
            return False
        runs = self._thread(found[0], op.space.own())
        return all(contains(runs, held, a.sums) for a in reads if (held := state.layouts[a.buffer]) is not None)

    def _settle(self, op: LoopOp, chosen: tuple[FragmentLayout, list[int]], source: Buffer | None,
                state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        if chosen[0] is TANGLED:
            return self._follow_tangled(op, state)
        key = (id(op), source, chosen[0], *(state.layouts.get(a.buffer) for a in op.accesses))
        if chosen[1] or key not in self._settled:
            before, state.doubt = state.doubt, False
            try:
                result: Any = self._resolve(op, chosen, source, state)
            except Clash as clash:
                result = clash
            self._settled[key] = (result, state.doubt)
            state.doubt |= before
        else:
            result, doubt = self._settled[key]
            state.doubt |= doubt
        if isinstance(result, Clash):
            raise result
        state.loops[id(op)] = chosen[0]
        if source is not None:
            state.source[id(op)] = source
        return result

    def _resolve(self, op: LoopOp, chosen: tuple[FragmentLayout, list[int]], source: Buffer | None,
                 state: State) -> list[tuple[Buffer, FragmentLayout | None]]:
        """What a loop gives the fragments without a layout; the same for the same layouts around it."""
        layout, serial = chosen
        shape = thread_shape(layout)
        if shape not in (FINE, SCALE):
            raise Clash("spread", op, source or op.accesses[0].buffer, access=self._access(op, source), previous=layout)
        self._validate(op, chosen, source, state)
        found: list[tuple[Buffer, FragmentLayout | None]] = []
        for a in op.accesses:
            if a.buffer in state.layouts:
                continue
            extents = a.buffer.static_shape()
            fits = extents is not None and layout.shape == op.space.extents
            new = completed(layout, a.sums, extents, op.space) if fits and extents is not None else None
            if new is None:
                state.doubt = True
            elif a.writes and source is not None and len(new.replicas) > len(layout.replicas):
                raise Clash("race", op, a.buffer, source, access=a)
            elif serial and source is not None:
                access = self._access(op, source)
                assert access is not None
                state.walked[a.buffer] = (access, op.space.variables[serial[0]])
            found.append((a.buffer, new))
        return found

    def _access(self, op: LoopOp, buffer: Buffer | None) -> Access | None:
        return next((a for a in op.accesses if a.buffer is buffer), None)

    def _validate(self, op: LoopOp, chosen: tuple[FragmentLayout, list[int]], source: Buffer | None, state: State) -> None:
        layout, serial = chosen
        own = op.space.own()
        source_access = self._access(op, source)
        runs = self._thread(layout, own)
        if serial and source_access is not None:  # the threads of the source's elements, serial variables included
            known = state.layouts[source_access.buffer]
            assert known is not None
            runs = self._thread(known, source_access.sums)
        for a in op.accesses:
            held = state.layouts.get(a.buffer)
            if held is None:
                continue
            reads = contains(runs, held, a.sums) if a.reads and a.buffer is not source else True
            if reads is False:
                raise self._mismatch(op, a, source, serial, state, layout)
            if a.writes:
                if thread_shape(layout) == SCALE:
                    walked = op.space.variables[serial[0]] if serial else None
                    kind = "serial" if walked is not None else "spread"
                    raise Clash(kind, op, a.buffer, fatal=True, access=a, variable=walked, previous=layout)
                if serial and not any(e > 1 for e in op.space.extents):
                    raise Clash("serial", op, a.buffer, fatal=True, access=a, variable=op.space.variables[serial[0]])
                if serial:
                    state.doubt = True
                    continue
                forward = contains(runs, held, a.sums)
                back = contains(self._thread(held, a.sums), layout, own)
                if forward is False or back is False:
                    raise self._mismatch(op, a, source, serial, state, layout)
                if forward is None or back is None:
                    state.doubt = True
            elif reads is None:
                state.doubt = True

    def _mismatch(self, op: LoopOp, a: Access, source: Buffer | None, serial: list[int], state: State, layout: FragmentLayout) -> Clash:
        walked = self._walks(op, a, source)
        if walked is not None:
            return Clash("serial", op, a.buffer, access=a, variable=walked)
        return Clash("loop", op, a.buffer, source, access=a, previous=state.layouts.get(a.buffer), wanted=layout)

    def _walks(self, op: LoopOp, a: Access, source: Buffer | None) -> Var | None:
        """The serial variable in the indices of one of the two fragments only, if any."""
        for access in (a, self._access(op, source)):
            if access is None:
                continue
            for s in access.sums:
                for p in s.parts if s is not None else ():
                    if p.digit is not None and p.digit.dim >= op.space.loop_rank:
                        return op.space.variables[p.digit.dim]
        return None
