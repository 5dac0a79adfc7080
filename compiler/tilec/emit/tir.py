"""Lowered programs as TIRx statements: one function per kind of node."""
from __future__ import annotations

from typing import Any

from .. import tvm_compat as T
from ..ir import dtypes
from ..ir.buffer import Buffer
from ..ir.build import const_int
from ..ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var
from ..ir.stmt import Alloc, Body, Evaluate, For, If, Jump, Let, Stmt, Store, While
from ..transform.errors import LoweringError
from .functions import TIR_FUNCTIONS

_BITWISE = ("bitand", "bitor", "bitxor", "shl", "shr")


class TirEmitter:
    """Translates expressions and statements; buffers and variables get one TIRx counterpart each."""

    def __init__(self, scopes: dict[str, str]):
        self.scopes = scopes  # our scope -> TIRx scope
        self.buffers: dict[Buffer, Any] = {}
        self.vars: dict[Var, Any] = {}
        self._names: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        count = self._names.get(wanted, 0)
        self._names[wanted] = count + 1
        return wanted if count == 0 else f"{wanted}_{count}"

    # -- expressions ---------------------------------------------------------------------------------------------
    def var(self, v: Var) -> Any:
        if v not in self.vars:
            self.vars[v] = T.var(self.name(v.name), v.dtype)
        return self.vars[v]

    def buffer(self, b: Buffer) -> Any:
        if b not in self.buffers:
            shape = [self.expr(e) for e in b.shape]
            strides = None if b.strides is None else [self.expr(e) for e in b.strides]
            self.buffers[b] = T.buffer(self.name(b.name), shape, b.dtype, self.scopes.get(b.scope, ""), strides)
        return self.buffers[b]

    def expr(self, e: Expr, depth: int = 0) -> Any:
        if depth > T.MAX_DEPTH:
            raise LoweringError("an expression is nested too deeply to be compiled", e.span)
        handler = _EXPRESSIONS.get(type(e))
        if handler is None:
            raise LoweringError(f"{type(e).__name__} cannot be emitted", e.span)
        return handler(self, e, depth + 1)

    # -- statements ----------------------------------------------------------------------------------------------
    def body(self, statements: Body) -> Any:
        return T.sequence([self.statement(s) for s in statements])

    def statement(self, s: Stmt) -> Any:
        handler = _STATEMENTS.get(type(s))
        if handler is None:
            raise LoweringError(f"{type(s).__name__} cannot be emitted", s.span)
        return handler(self, s)


def _const(em: TirEmitter, e: Const, depth: int) -> Any:
    return T.constant(e.value, e.dtype)


def _binary(em: TirEmitter, e: Binary, depth: int) -> Any:
    a, b = em.expr(e.a, depth), em.expr(e.b, depth)
    if e.op in _BITWISE:
        return T.bitwise(e.op, a, b)
    if e.op == "pow":
        return T.math("pow", (a, b))
    return T.binary(e.op, a, b)


def _unary(em: TirEmitter, e: Unary, depth: int) -> Any:
    a = em.expr(e.a, depth)
    if e.op == "not":
        return T.logical_not(a)
    if e.op == "bitnot":
        return T.bit_not(a)
    return T.binary("sub", T.constant(0, e.dtype), a) if not dtypes.is_float(e.dtype) else T.binary("mul", a, T.constant(-1.0, e.dtype))


def _cast(em: TirEmitter, e: Cast, depth: int) -> Any:
    return T.cast(e.dtype, em.expr(e.a, depth))


def _select(em: TirEmitter, e: Select, depth: int) -> Any:
    return T.if_then_else(em.expr(e.cond, depth), em.expr(e.then, depth), em.expr(e.other, depth))


def _load(em: TirEmitter, e: Load, depth: int) -> Any:
    return T.load(em.buffer(e.buffer), [em.expr(i, depth) for i in e.indices])


def _call(em: TirEmitter, e: Call, depth: int) -> Any:
    args = [em.expr(a, depth) for a in e.args if isinstance(a, Expr)]
    if e.op == "device_function":
        return T.extern((e.attrs or {})["name"], e.dtype, args)
    if e.op == "address_of":
        return T.address_of(args[0])
    function = TIR_FUNCTIONS.get(e.op)
    if function is None:
        raise LoweringError(f"T.{e.op} cannot be compiled for the CPU yet", e.span)
    return function(e, args)


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
    return T.bind(em.var(s.var), value)


def _store(em: TirEmitter, s: Store) -> Any:
    return T.store(em.buffer(s.buffer), em.expr(s.value), [em.expr(i) for i in s.indices])


def _for(em: TirEmitter, s: For) -> Any:
    extent = em.expr(s.extent)
    variable = em.var(s.var)
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
