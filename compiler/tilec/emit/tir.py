"""Lowered programs as TIRx statements: one function per kind of node."""
from __future__ import annotations

import math
from typing import Any

from .. import tvm_compat as T
from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var, equal, walk
from ..ir.held import held
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Let, Stmt, Store, While
from ..transform.bulk.tensor_map import TensorMap
from ..transform.errors import LoweringError
from . import narrow
from .functions import TIR_FUNCTIONS
from .marks import LineMarks

_BITWISE = ("bitand", "bitor", "bitxor", "shl", "shr")


class TirEmitter:
    """Translates expressions and statements; buffers and variables get one TIRx counterpart each."""

    def __init__(self, scopes: dict[str, str], compute_wide: bool = False):
        self.scopes = scopes  # our scope -> TIRx scope
        self.compute_wide = compute_wide  # narrow floats are computed in float32 (emit.narrow)
        self.marks: LineMarks | None = None  # set: statements are preceded by marks of the places they came from
        self.buffers: dict[Buffer, Any] = {}
        self.vars: dict[Var, Any] = {}
        self.maps: dict[TensorMap, Any] = {}
        self.backwards: set[Var] = set()  # names of values that may count downwards
        self._names: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}_{count}"

    # -- expressions ---------------------------------------------------------------------------------------------
    def var(self, v: Var) -> Any:
        if v not in self.vars:
            self.vars[v] = T.var(self.name(v.name), narrow.value_dtype(v.dtype) if self.compute_wide else v.dtype)
        return self.vars[v]

    def tensor_map(self, wanted: TensorMap) -> Any:
        if wanted not in self.maps:
            self.maps[wanted] = T.tensor_map_var(self.name(wanted.name))
        return self.maps[wanted]

    def buffer(self, b: Buffer, data: Any = None) -> Any:
        if b not in self.buffers:
            ratio = 2 if self.compute_wide and b.dtype in narrow.PACKED else 1
            shape = [self.expr(e) for e in (_halved(b.shape, b) if ratio == 2 else b.shape)]
            strides = None if b.strides is None else [self.expr(e if ratio == 1 or const_int(e) == 1 else e // 2) for e in b.strides]
            dtype = narrow.storage_dtype(b.dtype) if self.compute_wide else b.dtype
            name = self.name(b.name) if data is None else b.name
            self.buffers[b] = T.buffer(name, shape, dtype, self.scopes.get(b.scope, "") if data is None else "", strides, data)
        return self.buffers[b]

    def expr(self, e: Expr, depth: int = 0) -> Any:
        if depth > T.MAX_DEPTH:
            raise LoweringError("an expression is nested too deeply to be compiled", e.span)
        handler = _EXPRESSIONS.get(type(e))
        if handler is None:
            raise LoweringError(f"{type(e).__name__} cannot be emitted", e.span)
        return handler(self, e, depth + 1)

    def is_wide(self, dtype: str) -> bool:
        """Whether values of a type are held in float32."""
        return self.compute_wide and narrow.is_narrow(dtype)

    def rounded(self, dtype: str, value: Any) -> Any:
        """The result of an operation, rounded (or wrapped) to the type if its values are held in a wider one."""
        return narrow.rounded(dtype, value) if self.is_wide(dtype) else value

    # -- statements ----------------------------------------------------------------------------------------------
    def body(self, statements: Body) -> Any:
        out: list[Any] = []
        for s in statements:
            if isinstance(s, Alloc) and s.buffer in self.buffers:
                continue  # a view of the pool, declared at the top
            if self.marks is not None:
                out += self.marks.before(s.span)
            out.append(self.statement(s))
        return T.sequence(out)

    def statement(self, s: Stmt) -> Any:
        handler = _STATEMENTS.get(type(s))
        if handler is None:
            raise LoweringError(f"{type(s).__name__} cannot be emitted", s.span)
        return handler(self, s)


def _const(em: TirEmitter, e: Const, depth: int) -> Any:
    if em.is_wide(e.dtype) and not (e.dtype == "float8_e5m2" and e.value in (math.inf, -math.inf)):
        return em.rounded(e.dtype, T.constant(e.value, narrow.value_dtype(e.dtype)))
    if em.is_wide(e.dtype):
        return T.constant(e.value, narrow.value_dtype(e.dtype))
    value = held(e.value, e.dtype)  # LLVM folds what stands there, digits that the type does not hold included
    return T.constant(e.value if value is None else value, e.dtype)


def _binary(em: TirEmitter, e: Binary, depth: int) -> Any:
    if e.op in ("eq", "ne", "le", "ge") and dtypes.is_float(e.a.dtype) and equal(e.a, e.b):  # a test for NaN, which TVM takes for a constant
        missing = _call(em, Call("bool", e.span, "isnan", (e.a,)), depth)
        return missing if e.op == "ne" else T.logical_not(missing)
    a, b = em.expr(e.a, depth), em.expr(e.b, depth)
    if e.op in ("and", "or") and _needs_guard(e.b):
        return T.if_then_else(a, b, T.constant(False, "bool")) if e.op == "and" else T.if_then_else(a, T.constant(True, "bool"), b)
    if e.op in ("eq", "ne", "lt", "le", "gt", "ge") and e.a.dtype == "bool":  # LLVM would be asked to compare floats
        a, b = T.cast("int32", a), T.cast("int32", b)
    if e.op in _BITWISE:
        return T.bitwise(e.op, a, b)
    if e.op == "pow" or (e.op == "truncmod" and dtypes.is_float(e.dtype)):
        return _call(em, Call(e.dtype, e.span, "pow" if e.op == "pow" else "fmod", (e.a, e.b)), depth)
    if e.op in ("floordiv", "floormod") and dtypes.is_float(e.dtype):
        quotient = T.math("floor", (T.binary("div", a, b),))
        return em.rounded(e.dtype, quotient if e.op == "floordiv" else T.binary("sub", a, T.binary("mul", quotient, b)))
    if em.compute_wide and e.op in ("floordiv", "floormod") and (_runs_backwards(em, e.a) or _runs_backwards(em, e.b)):
        return em.rounded(e.dtype, T.division(e.op, a, b))
    made = _passing_over_nan(e.op, a, b) if e.op in ("min", "max") and dtypes.is_float(e.dtype) else T.binary(e.op, a, b)
    return em.rounded(e.dtype, made)


def _runs_backwards(em: TirEmitter, e: Expr) -> bool:
    """Whether a value may have a negative share of a loop variable."""
    return any((isinstance(x, Binary) and x.op == "sub" and not isinstance(x.b, Const)) or (isinstance(x, Unary) and x.op == "neg")
               or (isinstance(x, Const) and not isinstance(x.value, bool) and x.value < 0) or (isinstance(x, Var) and x in em.backwards) for x in walk(e))


def _needs_guard(e: Expr) -> bool:
    """Whether an expression may be undefined where the other operand of its and/or already decides: LLVM computes both."""
    return any(isinstance(x, (Load, Call)) or (isinstance(x, Binary) and x.op in _DIVISIONS and not dtypes.is_float(x.dtype) and not const_int(x.b))
               for x in walk(e))


_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod", "div")


def _passing_over_nan(op: str, a: Any, b: Any) -> Any:
    """fmin and fmax: TVM's own answer to a NaN is its second operand. The operands are computed once."""
    left, right = T.var("left", T.dtype_of(a)), T.var("right", T.dtype_of(b))
    chosen = T.if_then_else(T.math("isnan", (right,)), left, T.binary(op, left, right))
    return T.let(left, a, T.let(right, b, chosen))


def _unary(em: TirEmitter, e: Unary, depth: int) -> Any:
    a = em.expr(e.a, depth)
    if e.op == "not":
        return T.logical_not(a)
    if e.op == "bitnot":
        return T.bit_not(a)
    if dtypes.is_float(e.dtype):
        return T.binary("mul", a, T.constant(-1.0, narrow.value_dtype(e.dtype)))
    return T.binary("sub", T.constant(0, e.dtype), a)


def _cast(em: TirEmitter, e: Cast, depth: int) -> Any:
    value = em.expr(e.a, depth)
    if not em.is_wide(e.dtype):
        return T.cast(e.dtype, value)
    return em.rounded(e.dtype, T.cast(narrow.value_dtype(e.dtype), value))


def _select(em: TirEmitter, e: Select, depth: int) -> Any:
    return T.if_then_else(em.expr(e.cond, depth), em.expr(e.then, depth), em.expr(e.other, depth))


def _load(em: TirEmitter, e: Load, depth: int) -> Any:
    indices = [em.expr(i, depth) for i in e.indices]
    if em.is_wide(e.buffer.dtype) and e.buffer.dtype in narrow.PACKED:
        return narrow.widen(e.buffer.dtype, narrow.element_of(_byte(em, e.buffer, indices), indices[-1]))
    value = T.load(em.buffer(e.buffer), indices)
    return narrow.widen(e.buffer.dtype, value) if em.is_wide(e.buffer.dtype) else value


def _call(em: TirEmitter, e: Call, depth: int) -> Any:
    if e.op == "reinterpret":
        return _reinterpret(em, e, depth)
    if e.op == "tensor_map":
        return em.tensor_map((e.attrs or {})["map"])
    args = [em.expr(a, depth) for a in e.args if isinstance(a, Expr)]
    if e.op == "device_function":
        return T.extern((e.attrs or {})["name"], e.dtype, args)
    if e.op == "address_of":
        return T.address_of(args[0])
    function = TIR_FUNCTIONS.get(e.op)
    if function is None:
        raise LoweringError(f"T.{e.op} cannot be compiled for the CPU yet", e.span)
    if any(em.is_wide(a.dtype) for a in e.args if isinstance(a, Expr)):
        wide = tuple(Cast("float32", None, a) if isinstance(a, Expr) else a for a in e.args)
        result = narrow.value_dtype(e.dtype)
        return em.rounded(e.dtype, function(Call(result, e.span, e.op, wide, e.attrs), args))
    return function(e, args)


def _reinterpret(em: TirEmitter, e: Call, depth: int) -> Any:
    source = e.args[0].dtype
    if dtypes.bits(source) != dtypes.bits(e.dtype):
        raise LoweringError(f"T.reinterpret between types of different size ({source} and {e.dtype})", e.span)
    value = em.expr(e.args[0], depth)
    if em.is_wide(source):
        value = narrow.narrow(source, value)
    result = T.math("reinterpret", (narrow.storage_dtype(e.dtype) if em.compute_wide else e.dtype, value))
    return narrow.widen(e.dtype, result) if em.is_wide(e.dtype) else result


def _unknown(em: TirEmitter, e: Unknown, depth: int) -> Any:
    raise LoweringError(f"a value is not known ({e.reason}); give an instance that fixes the kernel's parameters", e.span)


_EXPRESSIONS: dict[type, Any] = {
    Const: _const, Var: lambda em, e, depth: em.var(e), Binary: _binary, Unary: _unary, Cast: _cast, Select: _select, Load: _load, Call: _call,
    Unknown: _unknown,
}


def _alloc(em: TirEmitter, s: Alloc) -> Any:
    return T.allocate(em.buffer(s.buffer))


def _let(em: TirEmitter, s: Let) -> Any:
    value = em.expr(s.value)
    if em.compute_wide and dtypes.is_int(s.var.dtype) and _runs_backwards(em, s.value):
        em.backwards.add(s.var)  # TVM puts the value in the name's place
    return T.bind(em.var(s.var), value)


def _store(em: TirEmitter, s: Store) -> Any:
    value, indices = em.expr(s.value), [em.expr(i) for i in s.indices]
    if em.is_wide(s.buffer.dtype):
        value = narrow.kept(s.buffer.dtype, value)
        if s.buffer.dtype in narrow.PACKED:
            value = narrow.replaced(_byte(em, s.buffer, indices), indices[-1], value)
            indices = _byte_indices(indices)
    return T.store(em.buffer(s.buffer), value, indices)


def _byte(em: TirEmitter, buffer: Buffer, indices: list[Any]) -> Any:
    return T.load(em.buffer(buffer), _byte_indices(indices))


def _byte_indices(indices: list[Any]) -> list[Any]:
    return [*indices[:-1], T.division("floordiv", indices[-1], T.constant(2, T.dtype_of(indices[-1])))]


def _halved(shape: tuple[Expr, ...], b: Buffer) -> tuple[Expr, ...]:
    last = const_int(shape[-1])
    if last is not None and last % 2:
        raise LoweringError(f"{b.name} has rows of {last} elements of {b.dtype}, which do not fill whole bytes", b.span)
    return (*shape[:-1], shape[-1] // 2)


def _for(em: TirEmitter, s: For) -> Any:
    extent = em.expr(s.extent)
    variable = em.var(s.var)
    if em.compute_wide and (s.step < 0 or _runs_backwards(em, s.start)):
        em.backwards.add(s.var)
    if const_int(s.start) == 0 and s.step == 1:
        return T.loop(variable, extent, em.body(s.body), s.kind)
    counter = T.var(em.name(s.var.name), s.var.dtype)
    value = T.binary("add", em.expr(s.start), T.binary("mul", counter, T.constant(s.step, s.var.dtype)))
    return T.loop(counter, extent, T.sequence([T.bind(variable, value), *[em.statement(x) for x in s.body]]), s.kind)


def _while(em: TirEmitter, s: While) -> Any:
    return T.while_loop(em.expr(s.cond), em.body(s.body))


def _if(em: TirEmitter, s: If) -> Any:
    return T.branch(em.expr(s.cond), em.body(s.then), em.body(s.other) if s.other else None)


def _jump(em: TirEmitter, s: Jump) -> Any:
    if s.kind == "return":
        raise LoweringError("return inside a kernel cannot be compiled", s.span)
    return T.break_loop() if s.kind == "break" else T.continue_loop()


def _evaluate(em: TirEmitter, s: Evaluate) -> Any:
    return T.evaluate(em.expr(s.value))


_STATEMENTS: dict[type, Any] = {
    Alloc: _alloc, Let: _let, Store: _store, For: _for, While: _while, If: _if, Jump: _jump, Evaluate: _evaluate,
}
