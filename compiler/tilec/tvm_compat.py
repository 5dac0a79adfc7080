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


def dtype_of(value: Any) -> str:
    return str(value.ty.dtype)


def cast(dtype: str, value: Any) -> Any:
    value = _some(value, "operand of a cast")
    return value if dtype_of(value) == dtype else tirx.Cast(dtype, value)


def load(buffer: Any, indices: Sequence[Any]) -> Any:
    return tirx.BufferLoad(_some(buffer, "buffer"), [_some(i, "index") for i in indices])


def if_then_else(cond: Any, then: Any, other: Any) -> Any:
    return tirx.if_then_else(_some(cond, "condition"), _some(then, "value"), _some(other, "value"))


def handle_var(name: str) -> Any:
    """A name for a pointer of no particular type."""
    return tirx.Var(name, ir.PointerType(ir.PrimType("void")))


def pointer_var(name: str, dtype: str) -> Any:
    """A name for a pointer to elements in main memory (on a GPU: global memory)."""
    return tirx.Var(name, ir.PointerType(ir.PrimType(dtype), "global"))


def struct_get(owner: Any, index: int, kind: int, dtype: str) -> Any:
    """A field of an argument array or DLTensor (TVM's tvm_struct_get)."""
    result: Any = ir.PointerType(ir.PrimType("void")) if dtype == "handle" else dtype
    return tirx.tvm_struct_get(_some(owner, "structure"), index, kind, result)


def choose_pointer(cond: Any, then: Any, other: Any) -> Any:
    """``if_then_else`` of pointers, which TVM's own function refuses."""
    args = [_some(cond, "condition"), _some(then, "value"), _some(other, "value")]
    return ir.Call("prim.if_then_else", args, ret_ty=ir.PointerType(ir.PrimType("void")))


def is_null(pointer: Any) -> Any:
    return tirx.isnullptr(_some(pointer, "pointer"))


def add_bytes(pointer: Any, count: int) -> Any:
    return tirx.handle_add_byte_offset(_some(pointer, "pointer"), count)


def pointer_to(dtype: str, pointer: Any) -> Any:
    """A pointer as one to elements of a type."""
    return tirx.reinterpret(ir.PointerType(ir.PrimType(dtype), "global"), _some(pointer, "pointer"))


def return_value(value: Any) -> Any:
    return tirx.Return(_some(value, "value"))


def let(name: Any, value: Any, body: Any) -> Any:
    """``body`` with a name for a value computed once."""
    return tirx.Let(name, _some(value, "value"), _some(body, "body"))


def extern(name: str, dtype: str, args: Sequence[Any]) -> Any:
    return tirx.call_extern(dtype, name, *[_some(a, "argument") for a in args])


BINARY = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "floordiv": "FloorDiv", "floormod": "FloorMod", "truncdiv": "Div", "truncmod": "Mod",
    "min": "Min", "max": "Max", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE", "and": "And", "or": "Or",
}


_EXACT = ("add", "sub", "mul", "div", "lt", "le", "gt", "ge", "eq", "ne")
_EXACT_OPS: dict[str, Any] = {}


def binary(op: str, a: Any, b: Any) -> Any:
    """Floats keep their order of operations: TVM's simplifier computes as with real numbers (x - x is 0, (x + c) - c is x)."""
    a, b = _some(a, "operand"), _some(b, "operand")
    if op in _EXACT and "float" in dtype_of(a):
        return ir.Call(_exact_op(op), [a, b], ret_ty=ir.PrimType("bool" if op not in _EXACT[:4] else dtype_of(a)))
    return getattr(tirx, BINARY[op])(a, b)


def division(op: str, a: Any, b: Any) -> Any:
    """An integer floordiv or floormod as it stands: where an index counts downwards, TVM's FlattenBuffer makes (15 - i) // 2 to i // -2 + 7, which is less."""
    a, b = _some(a, "operand"), _some(b, "operand")
    return ir.Call(_exact_op(op), [a, b], ret_ty=ir.PrimType(dtype_of(a)))


def _exact_op(op: str) -> Any:
    """An operation of our own without a meaning for the simplifier; the last pass before LLVM puts TVM's in its place."""
    if op not in _EXACT_OPS:
        name, made = f"tilec.{op}", getattr(tirx, BINARY[op])
        ir.op._ffi_api.RegisterOp(name, f"{op} as it stands")
        ir.register_op_attr(name, "TCallEffectKind", 1)  # pure
        ir.register_op_attr(name, "TVectorizable", True)
        ir.register_op_attr(name, "TScriptPrinterName", name)  # else the printer warns
        ir.register_op_attr(name, "default.FLowerIntrinsic", lambda call: made(call.args[0], call.args[1]))
        _EXACT_OPS[op] = ir.Op.get(name)
    return _EXACT_OPS[op]


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
    if name == "pow":  # TVM's function prints a warning about exponents from 3 on
        base, exponent = (_some(a, "argument") for a in args)
        return ir.Call(ir.Op.get("tirx.pow"), [base, exponent], ret_ty=ir.PrimType(dtype_of(base)))
    return getattr(tirx, name)(*[_some(a, "argument") for a in args])


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
    # The Python signature names the kind first, the node takes the condition first.
    return tirx.AssertStmt(_some(cond, "condition"), ir.StringImm(kind), [ir.StringImm(message)])


def tensor_map_var(name: str) -> Any:
    """A pointer to a tensor map."""
    return tirx.Var(name, tvm.ir.PointerType(tirx.TensorMapType()))


def tensor_map_storage() -> Any:
    """Room on the host's stack for one tensor map."""
    return tirx.op.tvm_stack_alloca("tensormap", 1)


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


def packed_function(name: str, params: Sequence[Any], body: Any, kind: str = "llvm") -> Any:
    """A host function in TVM's packed calling convention: (self_handle, args, num_args, result) -> int."""
    made = tirx.PrimFunc(list(params), _some(body, "body"), ret_type=ir.PrimType("int32"))
    attrs = {"global_symbol": f"__tvm_ffi_{name}", "calling_conv": 1, "tirx.is_entry_func": True, "target": tvm.target.Target(kind)}
    for key, value in attrs.items():
        made = made.with_attr(key, value)
    return made


def plain_function(name: str, params: Sequence[Any], body: Any) -> Any:
    """A function that others of its module call by name, with pointers and numbers. Its large arrays live on the heap of CPU 0."""
    body = sequence([body, return_value(constant(0, "int32"))])
    for key, value in (("device_type", 1), ("device_id", 0)):
        body = tirx.AttrStmt(ir.StringImm("default"), key, constant(value, "int32"), body)
    made = tirx.PrimFunc(list(params), body, ret_type=ir.PrimType("int32"))
    return made.with_attr("global_symbol", name).with_attr("tirx.noalias", True)


def module(functions: dict[str, Any]) -> Any:
    return ir.IRModule(functions)


def script(node: Any) -> str:
    """TVMScript text."""
    return str(node.script()).rstrip("\n") + "\n"


def cpu_target() -> Any:
    """This machine's processor, so that LLVM uses all of its vector instructions."""
    if not _CPU_TARGET:
        options: dict[str, Any] = {"kind": "llvm"}
        name = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
        if name is not None and name():
            options["mcpu"] = str(name())
        _CPU_TARGET.append(tvm.target.Target(options))
    return _CPU_TARGET[0]


_CPU_TARGET: list[Any] = []


def build_llvm(mod: Any) -> Any:
    """Compile a module of host functions with LLVM; functions in packed form can be called. Raises TvmError."""
    passes = tirx.transform
    target = cpu_target()
    sequence_ = [passes.StmtSimplify(), passes.FlattenBuffer(), passes.VectorizeLoop(True), passes.UnrollLoop(), passes.StmtSimplify(),
                 passes.LowerTVMBuiltin(), passes.LowerIntrin()]
    try:
        functions = {g.name_hint: f.with_attr("target", target) for g, f in mod.functions.items()}
        lowered = tvm.ir.transform.Sequential(sequence_)(ir.IRModule(functions))
        return tvm.get_global_func("target.build.llvm")(lowered, target)
    except Exception as error:
        raise TvmError(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    lines = [text for text in str(error).splitlines() if text.strip()]
    return lines[-1][:400] if lines else type(error).__name__
