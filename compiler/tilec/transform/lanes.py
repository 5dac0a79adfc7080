"""Vectors as their lanes: T.Ramp and T.Broadcast, wide loads and stores, slices of one thread. Later passes know scalars only.

The values of a vector store are all computed before the first element is written, as one instruction would do it.
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir import dtypes
from ..ir.buffer import GLOBAL, LOCAL, VAR, Buffer, Region, tile_axes
from ..ir.build import binary, call, cast, const, const_int, lift, select, unary
from ..ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, children, walk
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Let, Stmt, Store, TileOp, While, expressions
from ..ir.stmt import walk as walk_statements
from .context import PassContext
from .errors import LoweringError
from .legalize import unflatten
from .rewrite import map_children, map_expr, map_own

WIDE_LOADS = {f"{kind}{bits}": bits for kind in ("ldg", "lds") for bits in (32, 64, 128, 256)}
VECTOR_OPS = ("store_slice", "store_wide")
_PACKED = {"add2": "add", "sub2": "sub", "mul2": "mul", "max2": "max", "min2": "min"}
_EFFECTS = ("atomic_", "shfl", "tvm_warp", "rng_", "call_extern")


def split_vectors(program: TileProgram, ctx: PassContext) -> TileProgram:
    return program if not any(map(_has_vectors, walk_statements(program.body))) else replace(program, body=_Splitter().body(program.body))


def _has_vectors(s: Stmt) -> bool:
    if isinstance(s, TileOp) and s.op in VECTOR_OPS:
        return True
    if isinstance(s, (Alloc, Store)) and dtypes.lanes(s.buffer.dtype) > 1:
        return True
    return any(_is_vector(x) or (isinstance(x, Call) and (x.op in WIDE_LOADS or x.op == "extract_lane")) for e in expressions(s) for x in walk(e))


def _is_vector(e: Expr) -> bool:
    return e.dtype != dtypes.UNKNOWN and dtypes.lanes(e.dtype) > 1


class _Splitter:
    def __init__(self) -> None:
        self.names: dict[Var, list[Expr]] = {}
        self.flat: dict[Buffer, Buffer] = {}  # of buffers of vectors, those of their lanes
        self.before: list[Stmt] = []  # what must be computed before the statement at hand

    # -- statements ----------------------------------------------------------------------------------------------
    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            made = self._statement(s)
            out += [*self.before, *made]
            self.before = []
        return tuple(out)

    def _statement(self, s: Stmt) -> list[Stmt]:
        if isinstance(s, (Alloc, Store)) and dtypes.lanes(s.buffer.dtype) > 1 and s.buffer.scope in (VAR, LOCAL) and s.buffer.view_of is None:
            return self._private(s)
        if isinstance(s, (Alloc, Store)) and dtypes.lanes(s.buffer.dtype) > 1:
            raise LoweringError(f"{s.buffer.name} has elements of the vector type {s.buffer.dtype}; give it the type {dtypes.scalar(s.buffer.dtype)} and "
                                "one more dimension.", s.span, "vector-buffer")
        if isinstance(s, Let) and _is_vector(s.value):
            self.names[s.var] = [self._named(x, s) for x in self.lanes(s.value)]
            return []
        if isinstance(s, Store) and (_is_vector(s.value) or any(map(_is_vector, s.indices))):
            return self._store(s)
        if isinstance(s, TileOp) and s.op == "store_slice":
            return self._slice(s)
        if isinstance(s, TileOp) and s.op == "store_wide":
            return self._wide_store(s)
        if isinstance(s, Evaluate) and _is_vector(s.value):
            return [Evaluate(s.span, x) for x in self.lanes(s.value)]
        made = map_own(s, self._scalar_rule)
        if self.before and isinstance(s, While):
            raise LoweringError("A vector in the condition of a while loop cannot be compiled; compute it inside the loop.", s.span, "vector-while")
        before, self.before = self.before, []
        result = map_children(made, self.body)
        self.before = before
        return [result]

    def _private(self, s: Alloc | Store) -> list[Stmt]:
        """Memory of one thread that holds vectors holds their lanes along one more dimension."""
        flat = self._flat(s.buffer)
        if isinstance(s, Alloc):
            return [Alloc(s.span, flat)]
        count = dtypes.lanes(s.buffer.dtype)
        place = tuple(self.scalar(i) for i in s.indices) if s.buffer.scope == LOCAL else ()
        return self._stores(s, flat, [(*place, const(k)) for k in range(count)], _spread(self.lanes(s.value), count, s))

    def _flat(self, buffer: Buffer) -> Buffer:
        if buffer not in self.flat:
            if buffer.attrs.get("init") is not None:
                raise LoweringError(f"{buffer.name} holds a vector; assign its first value in a statement of its own.", buffer.span, "vector-buffer")
            shape = (*(() if buffer.scope == VAR else buffer.shape), const(dtypes.lanes(buffer.dtype)))
            self.flat[buffer] = Buffer(buffer.name, shape, dtypes.scalar(buffer.dtype), LOCAL, buffer.span, attrs={"align": 16})
        return self.flat[buffer]

    def _store(self, s: Store) -> list[Stmt]:
        values = self.lanes(s.value)
        places = [[_from_end(i, extent) for i in self.lanes(index)] for index, extent in zip(s.indices, s.buffer.shape)]
        count = max(len(values), *map(len, places))
        values = _spread(values, count, s)
        return self._stores(s, s.buffer, [tuple(_spread(p, count, s)[k] for p in places) for k in range(count)], values)

    def _slice(self, s: TileOp) -> list[Stmt]:
        dst, value = s.region("dst"), s.args["value"]
        axis = tile_axes(dst)[0]
        count = const_int(dst.extents[axis])
        assert count is not None
        source = _memory_of(value)
        if source is not None and _is_other(source, dst) and _row_fits(source.buffer, count) and _is_plain(dst):
            return [self._copy(s, dst, axis, source, count)]
        values = self.lanes(value) if dtypes.lanes(value.dtype) > 1 else [self._once(self.scalar(value), s)]
        if len(values) not in (1, count):
            raise LoweringError(f"The slice of {dst.buffer.name} has {count} elements, the vector stored to it {len(values)}.", s.span, "vector-lanes")
        places = [tuple(self.scalar(m) + k if i == axis else self.scalar(m) for i, m in enumerate(dst.mins)) for k in range(count)]
        return self._stores(s, dst.buffer, places, _spread(values, count, s))

    def _wide_store(self, s: TileOp) -> list[Stmt]:
        dst, bits = s.region("dst"), s.args["bits"]
        size = dtypes.bits(dst.dtype)
        value = s.args["value"]
        if dtypes.bits(value.dtype) != bits:
            raise LoweringError(f"{bits} bits are stored, but the value is {value.dtype}; T.reinterpret gives it another type.", s.span, "vector-lanes")
        if size > bits or bits % size or size % 8:
            raise LoweringError(f"{bits} bits are no whole elements of {dst.buffer.name} ({dst.dtype}).", s.span, "vector-lanes")
        source, count, last = _memory_of(value), bits // size, len(dst.mins) - 1
        pred = s.args.get("pred")
        if source is not None and _is_other(source, dst) and _row_fits(source.buffer, count) and _row_fits(dst.buffer, count):
            made: list[Stmt] = [self._copy(s, dst, last, source, count)]
        else:
            values = self._regrouped(self._parts(value), dst.dtype, s)
            places = [self._element(dst.buffer, dst.mins, k, count, s) for k in range(count)]
            made = self._stores(s, dst.buffer, places, values)
        return made if pred is None else [If(s.span, self.scalar(lift(pred)), tuple(made))]

    def _copy(self, s: TileOp, dst: Region, axis: int, source: Load, count: int) -> Stmt:
        """Plain data: a loop that becomes one wide access where both places allow it."""
        step = Var("int32", s.span, "v", "loop")

        def moved(indices: tuple[Expr, ...], at: int) -> tuple[Expr, ...]:
            return tuple(self.scalar(m) + step if i == at else self.scalar(m) for i, m in enumerate(indices))

        value = Load(source.dtype, source.span, source.buffer, moved(source.indices, len(source.indices) - 1))
        return For(s.span, step, const(0), const(count), (Store(s.span, dst.buffer, moved(dst.mins, axis), value),), "vectorized")

    def _stores(self, s: Stmt, buffer: Buffer, places: list[tuple[Expr, ...]], values: list[Expr]) -> list[Stmt]:
        if any(isinstance(x, Load) and x.buffer.storage() is buffer.storage() for v in values for x in walk(v)):
            values = [self._named(v, s) for v in values]
        before, self.before = self.before, []
        return [*before, *(Store(s.span, buffer, p, cast(v, buffer.dtype)) for p, v in zip(places, values))]

    # -- values --------------------------------------------------------------------------------------------------
    def scalar(self, e: Expr) -> Expr:
        """A scalar expression without vectors inside."""
        return map_expr(e, self._scalar_rule)

    def _scalar_rule(self, e: Expr) -> Expr | None:
        if isinstance(e, Call) and (e.op in WIDE_LOADS or (e.op == "reinterpret" and any(_is_vector(a) for a in children(e)))):
            return self._regrouped(self._parts(e), e.dtype, e)[0]
        if isinstance(e, Call) and e.op == "extract_lane":
            return self.lanes(e.args[0])[(e.attrs or {})["lane"]]
        if _is_vector(e):
            raise LoweringError(f"A vector ({e.dtype}) cannot be used here; store it to a slice, or reinterpret it as a scalar.", e.span, "vector-use")
        return None

    def lanes(self, e: Expr) -> list[Expr]:
        """The values of an expression lane by lane; one for a scalar."""
        if not _is_vector(e) and not any(map(_is_vector, walk(e))):
            return [self.scalar(e)]
        dtype = dtypes.scalar(e.dtype)
        if isinstance(e, Const):
            return [const(e.value, dtype, e.span)] * dtypes.lanes(e.dtype)
        if isinstance(e, Var):
            if e not in self.names:
                raise LoweringError(f"{e.name} is a vector ({e.dtype}) that comes from outside the kernel.", e.span, "vector-use")
            return self.names[e]
        if isinstance(e, Binary):
            return self._elementwise([e.a, e.b], e, lambda a, b: binary(e.op, a, b, e.span))
        if isinstance(e, Unary):
            return self._elementwise([e.a], e, lambda a: unary(e.op, a, e.span))
        if isinstance(e, Cast):
            return _spread(self._elementwise([e.a], e, lambda a: cast(a, dtype, e.span)), dtypes.lanes(e.dtype), e)
        if isinstance(e, Select):
            return self._elementwise([e.cond, e.then, e.other], e, lambda c, a, b: select(c, a, b, e.span))
        if isinstance(e, Load):
            return self._gather(e)
        assert isinstance(e, Call)
        return self._call(e, dtype)

    def _gather(self, e: Load) -> list[Expr]:
        if dtypes.lanes(e.buffer.dtype) > 1 and e.buffer.scope in (VAR, LOCAL) and e.buffer.view_of is None:
            flat, place = self._flat(e.buffer), tuple(self.scalar(i) for i in e.indices) if e.buffer.scope == LOCAL else ()
            return [Load(flat.dtype, e.span, flat, (*place, const(k))) for k in range(dtypes.lanes(e.buffer.dtype))]
        places = [[_from_end(i, extent) for i in self.lanes(index)] if _is_vector(index) else [self.scalar(index)]
                  for index, extent in zip(e.indices, e.buffer.shape)]
        count = max(map(len, places))
        return [Load(e.buffer.dtype, e.span, e.buffer, tuple(_spread(p, count, e)[k] for p in places)) for k in range(count)]

    def _call(self, e: Call, dtype: str) -> list[Expr]:
        attrs = e.attrs or {}
        if e.op == "pack":
            return [self.scalar(a) for a in e.args]
        if e.op == "broadcast":
            return [self._once(self.scalar(e.args[0]), e)] * attrs["lanes"]
        if e.op == "ramp":
            base, stride = self._once(self.scalar(e.args[0]), e), self.scalar(e.args[1])
            return [base + stride * k for k in range(attrs["lanes"])]
        if e.op in WIDE_LOADS or e.op == "reinterpret":
            return self._regrouped(self._parts(e), dtype, e)
        if e.op in _PACKED:
            return self._elementwise(list(e.args), e, lambda a, b: binary(_PACKED[e.op], a, b, e.span))
        if e.op in ("fma2", "abs2"):
            return self._elementwise(list(e.args), e, lambda *a: call(e.op[:-1], a, dtype, e.span))
        if e.op in ("atomic_addx2", "atomic_addx4"):
            return self._vector_atomic(e, dtype)
        if any(e.op.startswith(x) for x in _EFFECTS) or not any(map(_is_vector, children(e))):
            raise LoweringError(f"T.{e.op} of vectors cannot be compiled; use it on each element.", e.span, "vector-use")
        return self._elementwise(list(e.args), e, lambda *a: call(e.op, a, dtype if e.dtype != "bool" else "bool", e.span, **attrs))

    def _vector_atomic(self, e: Call, dtype: str) -> list[Expr]:
        """One atomic addition a lane, in order; the values before them."""
        place, source = e.args
        found: list[Expr] = []
        for k in range(dtypes.lanes(e.dtype)):
            target = Load(dtype, e.span, place.buffer, (*map(self.scalar, place.indices[:-1]), self.scalar(place.indices[-1]) + k))
            value = Load(source.buffer.dtype, e.span, source.buffer, (*map(self.scalar, source.indices[:-1]), self.scalar(source.indices[-1]) + k))
            found.append(call("atomic_add", (target, cast(value, dtype)), dtype, e.span, **(e.attrs or {})))
        return found

    def _elementwise(self, operands: list[Expr], e: Expr, make: Any) -> list[Expr]:
        parts = [self.lanes(a) if isinstance(a, Expr) else [a] for a in operands]
        count = max(map(len, parts))
        return [make(*(_spread(p, count, e)[k] for p in parts)) for k in range(count)]

    def _once(self, e: Expr, where: Any) -> Expr:
        """A scalar that several lanes use is computed once."""
        return self._bound(e, where) if any(isinstance(x, (Load, Call)) for x in walk(e)) else e

    def _named(self, e: Expr, where: Any) -> Expr:
        return e if isinstance(e, (Const, Var)) else self._bound(e, where)

    def _bound(self, e: Expr, where: Any) -> Var:
        name = Var(e.dtype, where.span, "lane", "let")
        self.before.append(Let(where.span, name, e))
        return name

    # -- bits ----------------------------------------------------------------------------------------------------
    def _parts(self, e: Expr) -> list[Expr]:
        """Values that hold the bits of an expression one after the other, of whatever type they are at hand in."""
        if isinstance(e, Call) and e.op == "reinterpret":
            return self._parts(e.args[0])
        if isinstance(e, Call) and e.op in WIDE_LOADS:
            return self._memory(e)
        return self.lanes(e)

    def _memory(self, e: Call) -> list[Expr]:
        """The elements a wide load reads; zeros where its condition does not hold (the load does not happen then)."""
        place = e.args[0]
        buffer = place.buffer
        size, bits = dtypes.bits(buffer.dtype), WIDE_LOADS[e.op]
        if dtypes.lanes(buffer.dtype) > 1 or size > bits or bits % size or size % 8:
            raise LoweringError(f"T.{e.op} reads {bits} bits, which are no whole elements of {buffer.name} ({buffer.dtype}).", e.span, "vector-lanes")
        if (buffer.storage().scope == GLOBAL) != e.op.startswith("ldg"):
            raise LoweringError(f"T.{e.op} reads {'global' if e.op.startswith('ldg') else 'shared'} memory; {buffer.name} is {buffer.scope}.", e.span,
                                "vector-scope")
        count = bits // size
        loads: list[Expr] = [Load(buffer.dtype, e.span, buffer, self._element(buffer, place.indices, k, count, e)) for k in range(count)]
        if len(e.args) == 1:
            return loads
        condition = self._once(self.scalar(e.args[1]), e)
        return [select(condition, x, const(0, buffer.dtype)) for x in loads]

    def _element(self, buffer: Buffer, indices: tuple[Expr, ...], k: int, count: int, where: Any) -> tuple[Expr, ...]:
        """The element ``k`` places after another in memory."""
        first = tuple(self.scalar(i) for i in indices)
        if len(first) <= 1 or _row_fits(buffer, count):
            return (*first[:-1], first[-1] + k)
        if buffer.strides is not None or buffer.view_of is not None:
            raise LoweringError(f"{count} neighbours of an element of {buffer.name} may reach over the end of a row, which its strides do not allow.",
                                where.span, "vector-lanes")
        flat: Expr = const(0)
        for i, extent in zip(first, buffer.shape):
            flat = flat * extent + i
        return unflatten(flat + k, buffer.shape)

    def _regrouped(self, parts: list[Expr], dtype: str, where: Any) -> list[Expr]:
        """The same bits as values of another type."""
        target = dtypes.scalar(dtype)
        size, wanted = dtypes.bits(parts[0].dtype), dtypes.bits(target)
        if size % 8 or wanted % 8:
            raise LoweringError(f"The bits of {parts[0].dtype} values as {target}: types of less than a byte have no lowering.", where.span, "vector-bits")
        if size == wanted:
            return [_same_bits(p, target) for p in parts]
        if size > wanted:
            ratio, word = size // wanted, f"uint{size}"
            bound = [self._once(_same_bits(p, word), where) for p in parts]
            return [_same_bits(cast(binary("shr", b, const(wanted * k, word)), f"uint{wanted}"), target) for b in bound for k in range(ratio)]
        ratio, word = wanted // size, f"uint{wanted}"
        made = []
        for first in range(0, len(parts), ratio):
            total: Expr = const(0, word)
            for k, p in enumerate(parts[first:first + ratio]):
                piece = cast(_same_bits(p, f"uint{size}"), word)
                total = binary("bitor", total, binary("shl", piece, const(size * k, word))) if k else piece
            made.append(_same_bits(total, target))
        return made


def _same_bits(e: Expr, dtype: str) -> Expr:
    while isinstance(e, Call) and e.op == "reinterpret":
        e = e.args[0]
    return e if e.dtype == dtype else call("reinterpret", (e,), dtype, e.span)


def _memory_of(e: Expr) -> Load | None:
    """Where an unconditional wide load, whatever its type was changed to, starts."""
    while isinstance(e, Call) and e.op == "reinterpret":
        e = e.args[0]
    return e.args[0] if isinstance(e, Call) and e.op in WIDE_LOADS and len(e.args) == 1 else None


def _is_other(source: Load, dst: Region) -> bool:
    """Elements of the same type in other memory: copied one after the other they do not disturb each other."""
    return source.buffer.dtype == dst.dtype and source.buffer.storage() is not dst.buffer.storage()


def _is_plain(r: Region) -> bool:
    return not any(map(_is_vector, r.mins))


def _row_fits(buffer: Buffer, count: int) -> bool:
    """Whether so many neighbours, aligned as the instruction demands, lie in one row."""
    if len(buffer.shape) <= 1:
        return buffer.strides is None or const_int(buffer.strides[-1]) == 1
    extent = const_int(buffer.shape[-1])
    return extent is not None and extent % count == 0 and (buffer.strides is None or const_int(buffer.strides[-1]) == 1)


def _from_end(index: Expr, extent: Expr) -> Expr:
    """A lane's index; negative ones count from the end, as TileLang legalizes vectors of indices whose sign is not known."""
    known = const_int(index)
    if known is not None:
        return extent + known if known < 0 else index
    return select(binary("lt", index, const(0, index.dtype)), index + cast(extent, index.dtype), index)


def _spread(values: list[Expr], count: int, where: Any) -> list[Expr]:
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise LoweringError(f"Vectors of {len(values)} and {count} lanes are used together.", where.span, "vector-lanes")
    return values
