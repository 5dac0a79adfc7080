"""The only module that imports tvm: node constructors that check their arguments, and the builds this project uses.

apache-tvm 0.27.0.post1 with apache-tvm-ffi 0.1.14.post0. TVM dies on malformed IR (None as a child, very deep
expressions), so everything goes through the functions here.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import ir, tirx

MAX_DEPTH = 400  # nested expressions; TVM's recursive passes overflow the stack at a few thousand


class TvmError(Exception):
    """TVM refused a program or failed to compile it."""


def _some(value: Any, what: str) -> Any:
    if value is None:
        raise TvmError(f"internal: {what} is missing")
    return value


# -- expressions -----------------------------------------------------------------------------------------------------------
def var(name: str, dtype: str) -> Any:
    return tirx.Var(name, dtype)


def constant(value: int | float | bool, dtype: str) -> Any:
    return tirx.const(value, dtype)


def cast(dtype: str, value: Any) -> Any:
    return tirx.Cast(dtype, _some(value, "operand of a cast"))


def load(buffer: Any, indices: Sequence[Any]) -> Any:
    return tirx.BufferLoad(_some(buffer, "buffer"), [_some(i, "index") for i in indices])


def if_then_else(cond: Any, then: Any, other: Any) -> Any:
    return tirx.if_then_else(_some(cond, "condition"), _some(then, "value"), _some(other, "value"))


def intrinsic(name: str, dtype: str, args: Sequence[Any]) -> Any:
    return tirx.call_intrin(dtype, f"tirx.{name}", *[_some(a, "argument") for a in args])


def extern(name: str, dtype: str, args: Sequence[Any]) -> Any:
    return tirx.call_extern(dtype, name, *[_some(a, "argument") for a in args])


BINARY = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "floordiv": "FloorDiv", "floormod": "FloorMod", "truncdiv": "Div", "truncmod": "Mod",
    "min": "Min", "max": "Max", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE", "and": "And", "or": "Or",
}


def binary(op: str, a: Any, b: Any) -> Any:
    return getattr(tirx, BINARY[op])(_some(a, "operand"), _some(b, "operand"))


def bitwise(op: str, a: Any, b: Any) -> Any:
    functions = {"bitand": tirx.bitwise_and, "bitor": tirx.bitwise_or, "bitxor": tirx.bitwise_xor, "shl": tirx.shift_left, "shr": tirx.shift_right}
    return functions[op](_some(a, "operand"), _some(b, "operand"))


def logical_not(a: Any) -> Any:
    return tirx.Not(_some(a, "operand"))


def bit_not(a: Any) -> Any:
    return tirx.bitwise_not(_some(a, "operand"))


def address_of(element: Any) -> Any:
    return tirx.address_of(_some(element, "element"))


def math(name: str, args: Sequence[Any]) -> Any:
    """A scalar function of TVM by its Python name."""
    return getattr(tirx, name)(*[_some(a, "argument") for a in args])


def has_math(name: str) -> bool:
    return callable(getattr(tirx, name, None))


# -- buffers and statements ----------------------------------------------------------------------------------------------------
def buffer(name: str, shape: Sequence[Any], dtype: str, scope: str = "", strides: Sequence[Any] | None = None, data: Any = None,
           elem_offset: Any = None) -> Any:
    kwargs: dict[str, Any] = {}
    if strides is not None:
        kwargs["strides"] = list(strides)
    if data is not None:
        kwargs["data"] = data
    if elem_offset is not None:
        kwargs["elem_offset"] = elem_offset
    return tirx.decl_buffer(list(shape), dtype, name, scope=scope, **kwargs)


def data_of(buf: Any) -> Any:
    return tirx.buffer_data(buf)


def sequence(statements: Sequence[Any]) -> Any:
    items = [_some(s, "statement") for s in statements]
    if not items:
        return tirx.Evaluate(tirx.const(0, "int32"))
    return items[0] if len(items) == 1 else tirx.SeqStmt(items)


def allocate(buf: Any) -> Any:
    return tirx.AllocBuffer(_some(buf, "buffer"))


def declare(buf: Any, data: Any) -> Any:
    return tirx.DeclBuffer(_some(buf, "buffer"), data=data)


def store(buf: Any, value: Any, indices: Sequence[Any]) -> Any:
    return tirx.BufferStore(_some(buf, "buffer"), _some(value, "value"), [_some(i, "index") for i in indices])


_KINDS = {"serial": "SERIAL", "unroll": "UNROLLED", "vectorized": "VECTORIZED", "parallel_cpu": "PARALLEL", "pipelined": "SERIAL"}


def loop(loop_var: Any, extent: Any, body: Any, kind: str = "serial") -> Any:
    zero = tirx.const(0, str(loop_var.ty.dtype) if hasattr(loop_var.ty, "dtype") else "int32")
    return tirx.For(loop_var, zero, _some(extent, "extent"), getattr(tirx.ForKind, _KINDS[kind]), _some(body, "body"))


def branch(cond: Any, then: Any, other: Any = None) -> Any:
    return tirx.IfThenElse(_some(cond, "condition"), _some(then, "body"), other)


def while_loop(cond: Any, body: Any) -> Any:
    return tirx.While(_some(cond, "condition"), _some(body, "body"))


def bind(name: Any, value: Any) -> Any:
    return tirx.Bind(name, _some(value, "value"))


def evaluate(value: Any) -> Any:
    return tirx.Evaluate(_some(value, "value"))


def break_loop() -> Any:
    return tirx.Evaluate(tirx.break_loop())


def continue_loop() -> Any:
    return tirx.Evaluate(tirx.continue_loop())


def thread_extent(tag: str, name: Any, extent: Any, body: Any) -> Any:
    kind = tirx.IterVar.ThreadIndex
    axis = tirx.IterVar(ir.Range(tirx.const(0, "int32"), extent), name, kind, tag)
    return tirx.AttrStmt(axis, "thread_extent", extent, body)


def assertion(cond: Any, kind: str, message: str) -> Any:
    return tirx.AssertStmt(ir.StringImm(kind), _some(cond, "condition"), [ir.StringImm(message)])


def call_packed(*args: Any) -> Any:
    return tirx.call_packed(*args)


def string(text: str) -> Any:
    return ir.StringImm(text)


# -- functions, modules, builds --------------------------------------------------------------------------------------------------
def function(name: str, params: Sequence[Any], body: Any, attrs: dict[str, Any] | None = None) -> Any:
    made = tirx.PrimFunc([_some(p, "parameter") for p in params], _some(body, "body")).with_attr("global_symbol", name)
    for key, value in (attrs or {}).items():
        made = made.with_attr(key, value)
    return made


def module(functions: dict[str, Any]) -> Any:
    return ir.IRModule(functions)


def script(node: Any) -> str:
    """TVMScript text."""
    return node.script()


def build_cpu(mod: Any) -> Any:
    """Compile a module of host functions with LLVM. Raises TvmError."""
    try:
        return tvm.compile(mod, target=tvm.target.Target("llvm"))
    except Exception as error:  # noqa: BLE001 - whatever TVM raises is told as one kind
        raise TvmError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    lines = [text for text in str(error).splitlines() if text.strip()]
    return lines[-1][:400] if lines else type(error).__name__


def host_module(name: str, params: Sequence[Any], body: Any, arch: str) -> Any:
    """A host function that takes a packed call: TVM adds the checks of count, type, rank, dtype, extents, strides and device."""
    target = tvm.target.Target({"kind": "cuda", "arch": arch}, host="llvm")
    made = function(name, params, body).with_attr("target", target)
    try:
        return tirx.transform.MakePackedAPI()(module({name: made}))
    except Exception as error:  # noqa: BLE001
        raise TvmError(_first_line(error)) from error


def packed_cpu(mod: Any) -> Any:
    """A CPU module with TVM's argument checks."""
    try:
        return tirx.transform.MakePackedAPI()(tirx.transform.BindTarget(tvm.target.Target("llvm", host="llvm"))(mod))
    except Exception as error:  # noqa: BLE001
        raise TvmError(_first_line(error)) from error


def data_pointer(buf: Any) -> Any:
    return tirx.buffer_data(buf)
