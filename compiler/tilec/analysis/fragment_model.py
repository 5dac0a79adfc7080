"""A kernel's launch as layout inference sees it on one target."""
from __future__ import annotations

from dataclasses import field
from math import gcd
from typing import Any

from ..ir import dtypes
from ..ir.affine import linear
from ..ir.buffer import FRAGMENT, GLOBAL, SHARED, SHARED_DYN, Buffer, Region
from ..ir.build import const_int
from ..ir.expr import Expr, Var
from ..ir.expr import walk as walk_expr
from ..ir.layouts import LayoutValue
from ..ir.stmt import Body, Launch, TileOp
from ..records import dataclass
from ..target.chips import MAX_THREADS, Target
from .digits import replicated
from .layout import THREAD, Digit, FragmentLayout, Replica
from .layout_inference import Clash, Inference, State
from .matrix_layouts import MMA, WGMMA, Product, accumulator, operand, warp_split
from .placement import Space, with_registers
from .tile_loops import Collector, LoopOp, Operator, OtherOp, ProductOp, fragments_of
from .wgmma_form import wgmma_types

Wanted = list[tuple[str, Buffer, FragmentLayout]]


@dataclass(eq=False, repr=False)
class Outcome:
    clashes: list[Clash]
    undefined: set[Buffer]
    state: State
    operators: list[Operator]
    products: dict[int, Product] = field(default_factory=dict)  # by statement
    threads: int = 0
    final: dict[Buffer, FragmentLayout] = field(default_factory=dict)  # layouts that are certain


class FragmentModel:
    def __init__(self, launch: Launch, outside: Body, pass_configs: Any = None) -> None:
        self.launch = launch
        self.fragments = fragments_of(launch, outside)
        self.collector = Collector(launch) if self.fragments else None
        self.configs = pass_configs if isinstance(pass_configs, dict) else {}
        self._widths: dict[bool, _Vectors] = {}
        self._known: dict[Any, list[tuple[_Vectors, Outcome]]] = {}  # targets mostly agree
        extents = [const_int(t) for t in launch.threads]
        self.threads = extents[0] if extents[0] is not None and None not in extents and extents[0] <= MAX_THREADS else None
        self.flat = self.threads is not None and extents[1] == extents[2] == 1

    def infer(self, target: Target, policy: str | None = None, threads: int | None = None) -> Outcome | None:
        """``policy``, ``threads``: tried instead of the program's own."""
        count = threads or self.threads
        if self.collector is None or not self.flat or count is None or count < 1 or target.kind != "cuda":
            return None
        products: dict[int, Product] = {}
        wanted: dict[int, Wanted | None] = {}
        for op in self.collector.operators:
            if isinstance(op, ProductOp):
                wanted[id(op.stmt)] = self._product(op.stmt, target, count, policy, products)
        vectors = self._vectors(target.sm >= 100)
        key = (count, tuple((p.instruction, p.M, p.N, p.K, p.bits, p.m, p.n) for p in products.values()), len(wanted))
        for other, outcome in self._known.get(key, ()):
            if other is vectors or all(other.of(op) == vectors.of(op) for op in self.collector.operators if isinstance(op, LoopOp)):
                return outcome
        given, unknown = self._given(count)
        engine = Inference(self.collector.operators, count, given, unknown, wanted, vectors, lambda v: fragment_of_value(v, count))
        clashes, undefined = engine.run()
        outcome = Outcome(clashes, undefined, engine.state, self.collector.operators, products, count, {} if clashes else engine.final)
        self._known.setdefault(key, []).append((vectors, outcome))
        return outcome

    def _vectors(self, wide: bool) -> _Vectors:
        if wide not in self._widths:
            self._widths[wide] = _Vectors(self.launch, wide, self._swizzled())
        return self._widths[wide]

    def _given(self, threads: int) -> tuple[dict[Buffer, FragmentLayout | None], set[Buffer]]:
        """Layouts fixed before inference: annotations, and full copies for what is read outside of loops over threads."""
        from ..ir.stmt import Store

        assert self.collector is not None
        given: dict[Buffer, FragmentLayout | None] = {}
        unknown: set[Buffer] = set()
        annotated = self.launch.attrs.get("layouts", {})
        for buffer in self.fragments:
            storage = buffer.storage()
            if buffer.view_of is not None or storage.scope != FRAGMENT:
                unknown |= {buffer, storage}
            if buffer in annotated:
                given[buffer] = fragment_of_value(annotated[buffer], threads)
            elif self.launch.attrs.get("layouts_unknown"):
                unknown.add(buffer)
        for buffer, statement in self.collector.floating.items():
            shape = buffer.static_shape()
            if isinstance(statement, (Store, TileOp)) or shape is None:
                unknown.add(buffer)
            elif buffer not in given:
                given[buffer] = replicated(shape, threads)
        unknown |= {b for b in self.fragments if b.attrs.get("reducer")}
        return {b: v for b, v in given.items() if b not in unknown}, unknown

    def _swizzled(self) -> set[Buffer]:
        """Shared tiles whose addresses are not row-major."""
        assert self.collector is not None
        found = set(self.launch.attrs.get("layouts", {}))
        for op in self.collector.operators:
            if isinstance(op, ProductOp):
                found |= {r.buffer.storage() for r in op.stmt.args.values() if isinstance(r, Region)}
        return found

    def _product(self, op: TileOp, target: Target, threads: int, policy: str | None, products: dict[int, Product]) -> Wanted | None:
        if any("wgmma" in str(k) for k in self.configs) or threads % 32:
            return None
        found = product_of(op, target, threads, policy)
        if found is None:
            return None
        products[id(op)] = found
        wanted: Wanted = []
        for which in "ABC":
            buffer = op.region(which).buffer
            if buffer.scope != FRAGMENT:
                continue
            if not op.region(which).is_whole():
                return None
            k_last = bool(op.args.get("transpose_B")) if which == "B" else not op.args.get("transpose_A")
            layout = accumulator(found) if which == "C" else operand(which, found, k_last)
            if layout is None or buffer.static_shape() != layout.shape:
                return None
            wanted.append((which, buffer, layout))
        return wanted


def product_of(op: TileOp, target: Target, threads: int, policy: str | None = None) -> Product | None:
    """How a T.gemm into a fragment is done, or None where that is not known."""
    A, B, C = (op.args.get(n) for n in "ABC")
    if not all(isinstance(r, Region) and len(r.extents) == 2 for r in (A, B, C)) or C.buffer.scope != FRAGMENT:  # type: ignore[union-attr]
        return None
    flags = op.args.get("transpose_A"), op.args.get("transpose_B")
    chosen = policy or op.args.get("policy")
    if not all(isinstance(f, (bool, int)) for f in flags) or not isinstance(chosen, str):
        return None
    M, N = (const_int(e) for e in C.extents)  # type: ignore[union-attr]
    K = const_int(A.extents[0 if flags[0] else 1])  # type: ignore[union-attr]
    dtype = A.dtype  # type: ignore[union-attr]
    if M is None or N is None or K is None or dtype in (dtypes.UNKNOWN, "float64"):
        return None
    if min(M, N, K) < 1 or M % 16 or N % 8:
        return None
    instruction = WGMMA if op.op == "wgmma_gemm" or takes_wgmma(op, M, K, target, threads) else MMA
    split = warp_split(M, N, threads // 32, chosen, instruction)
    if split is None or target.sm < 80:
        return None
    return Product(instruction, M, N, K, dtypes.bits(dtype), *split)


def takes_wgmma(op: TileOp, M: int, K: int, target: Target, threads: int) -> bool:
    """Whether Hopper's compiler takes wgmma for a T.gemm."""
    if not target.wgmma or M < 64 or threads % 128 or op.region("B").buffer.scope not in (SHARED, SHARED_DYN):
        return False
    a, b, c = (op.region(n).dtype for n in "ABC")
    k_major = not op.args.get("transpose_A") and bool(op.args.get("transpose_B"))
    return wgmma_types(a, b, c, K, k_major)


def fragment_of_value(value: Any, threads: int) -> FragmentLayout | None:
    """A layout that was written down, in digits; None if it is not known or no such layout."""
    if not isinstance(value, LayoutValue) or value.kind != "fragment" or value.thread is None or value.shape is None:
        return None
    extents = [const_int(e) if isinstance(e, Expr) else e for e in value.shape]
    shape = [e for e in extents if isinstance(e, int) and e > 0]
    if len(shape) != len(extents) or len(value.variables) != len(shape) or value.index is None or len(value.index) != 1:
        return None
    variables: list[tuple[Var, int]] = list(zip(value.variables, shape))
    if value.replica is not None:
        variables.append((value.replica, value.replicate))
    space = Space(variables, (), {})
    thread, register = space.of(value.thread), space.of(value.index[0])
    if thread is None or register is None or thread.constant or register.constant:
        return None
    digits: list[Digit] = []
    replicas: list[Replica] = []
    for axis, total in ((THREAD, thread), ("register", register)):
        for p in total.parts:
            if p.digit is None:
                return None
            if p.digit.dim == len(shape):
                if axis != THREAD or p.below != 1:
                    return None
                replicas.append(Replica(p.extent, p.weight))
            elif p.extent > 1:
                digits.append(Digit(p.digit.dim, p.extent, p.below, axis, p.weight))
    if with_registers(shape, [d for d in digits if d.axis == THREAD]) is None:
        return None
    return FragmentLayout(tuple(shape), tuple(digits), tuple(replicas))


class _Vectors:
    """How many neighbouring elements of a loop's last dimension a thread takes at once; None if not sure."""

    def __init__(self, launch: Launch, wide: bool, swizzled: set[Buffer]) -> None:
        self.launch = launch
        self.wide = wide
        self.swizzled = swizzled
        self._found: dict[int, int | None] = {}

    def of(self, op: LoopOp) -> int | None:
        if id(op) not in self._found:
            self._found[id(op)] = self._of(op)
        return self._found[id(op)]

    def _of(self, op: LoopOp) -> int | None:
        if not op.simple or not op.memory or not op.space.extents:
            return None
        if any(m.buffer.storage() in self.swizzled for m in op.memory):
            return None
        limit = 256 if self.wide and all(m.buffer.scope == GLOBAL for m in op.memory) else 128
        width = limit
        for m in op.memory:
            mine = self._access(op, m.buffer, m.indices, m.writes, limit)
            if mine is None:
                return None
            width = gcd(width, mine)
        return width

    def _access(self, op: LoopOp, buffer: Buffer, indices: tuple[Expr, ...], writes: bool, limit: int) -> int | None:
        shape = buffer.static_shape()
        bits = dtypes.bits(buffer.dtype) if buffer.dtype != dtypes.UNKNOWN else 0
        if shape is None or buffer.strides is not None or not bits or limit % bits:
            return None
        if not self._inside(op, indices, shape):
            return None
        inner = op.space.variables[op.space.loop_rank - 1]
        width = gcd(gcd(limit, op.space.extents[-1]), limit // bits)
        stride, step = 1, 0
        for index, extent in zip(reversed(indices), reversed(shape)):
            terms, constant = linear(index)
            width = gcd(width, constant * stride) if constant else width
            for term, factor in terms:
                if isinstance(term, Var) and term is inner:
                    step += factor * stride
                elif any(x is inner for x in walk_expr(term)):
                    return None
                else:
                    width = gcd(width, factor * stride)
            stride *= extent
        if step == 0:
            return None if writes else limit
        return width if step == 1 else 1

    def _inside(self, op: LoopOp, indices: tuple[Expr, ...], shape: tuple[int, ...]) -> bool:
        """Proven in bounds, so that no condition is put around the access."""
        ranges = op.space.ranges.copy()
        for var, extent in zip(op.space.variables, op.space.layout.shape):
            ranges.set_bounds(var, 0, extent - 1)
        for var, blocks in zip(self.launch.block_vars, self.launch.grid):
            count = const_int(blocks)
            if count is not None:
                ranges.set_bounds(var, 0, count - 1)
        for index, extent in zip(indices, shape):
            low, high = ranges.bounds(index)
            if low is None or high is None or low < 0 or high >= extent:
                return False
        return True


def models(program: Any) -> list[FragmentModel]:
    """One model a launch."""
    outside = tuple(s for s in program.body if not isinstance(s, Launch))
    configs = program.attrs.get("pass_configs")
    return [FragmentModel(launch, outside, configs) for launch in program.launches()]


__all__ = ["FragmentModel", "OtherOp", "Outcome", "fragment_of_value", "models", "product_of", "takes_wgmma"]
