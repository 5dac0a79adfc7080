"""Atomic operations on one element as device functions."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ir import dtypes
from ..ir.buffer import FRAGMENT, GLOBAL, Buffer
from ..ir.build import cast, const
from ..ir.expr import Call, Expr, Load
from ..ir.stmt import Evaluate, TileOp
from ..target.chips import Target
from .errors import LoweringError
from .matrix.device import address_of

if TYPE_CHECKING:
    from .context import LaunchState

C_TYPES = {"float32": "float", "float64": "double", "float16": "half", "bfloat16": "__nv_bfloat16", "int32": "int", "uint32": "unsigned int",
           "int64": "long long", "uint64": "unsigned long long", "int16": "short", "uint16": "unsigned short", "int8": "signed char",
           "uint8": "unsigned char", "bool": "bool"}
_WORDS = {2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_NATIVE = {
    "add": ("float32", "float64", "float16", "bfloat16", "int32", "uint32", "uint64"),
    "max": ("int32", "uint32", "int64", "uint64"), "min": ("int32", "uint32", "int64", "uint64"),
    "and": ("int32", "uint32", "uint64"), "or": ("int32", "uint32", "uint64"), "xor": ("int32", "uint32", "uint64"),
}
_COMBINE = {"add": "old + value", "max": "old > value ? old : value", "min": "old < value ? old : value", "and": "old & value",
            "or": "old | value", "xor": "old ^ value"}


def atomic_statement(op: TileOp, buffer: Buffer, indices: tuple[Expr, ...], value: Expr, target: Target) -> Evaluate:
    return Evaluate(op.span, _call(op.args["kind"], buffer, indices, value, False, target, op))


def lower_atomic_calls(e: Expr, inner: Callable[[Expr], Expr], state: LaunchState) -> Expr | None:
    """``old = T.atomic_add(..., return_prev=True)`` and ``T.atomic_load`` inside an expression; None for everything else."""
    if not isinstance(e, Call) or not e.op.startswith("atomic_"):
        return None
    place = e.args[0]
    if not isinstance(place, Load):
        raise LoweringError(f"T.{e.op}: the operand must be an element of a buffer.", e.span, "atomic-scope")
    if place.buffer.scope == FRAGMENT:
        raise LoweringError(f"T.{e.op} on the fragment {place.buffer.name}: registers are private; use a shared or global buffer, or without its result "
                            "an update.", e.span, "atomic-scope")
    indices = tuple(inner(i) for i in place.indices)
    buffer, indices = state.shared_element(place.buffer, indices)
    kind = e.op.removeprefix("atomic_")
    if kind == "load":
        return _call("load", buffer, indices, None, True, state.target, e)
    return _call(kind, buffer, indices, cast(inner(e.args[1]), buffer.dtype), True, state.target, e)


# -- neighbours at once --------------------------------------------------------------------------------------------------------
# PTX ISA, "red": element type, elements and the first architecture that adds so many of them to global memory with one instruction.
_WIDE = {("float32", 4): ("v4.f32", 90), ("float32", 2): ("v2.f32", 90), ("float16", 2): ("noftz.f16x2", 70), ("bfloat16", 2): ("noftz.bf16x2", 90),
         ("float16", 4): ("noftz.v2.f16x2", 90), ("bfloat16", 4): ("noftz.v2.bf16x2", 90), ("float16", 8): ("noftz.v4.f16x2", 90),
         ("bfloat16", 8): ("noftz.v4.bf16x2", 90)}


def adds_at_once(op: TileOp, width: int, target: Target) -> bool:
    """Whether one instruction adds ``width`` neighbours in global memory; each of them atomically."""
    buffer = op.region("dst").buffer
    known = _WIDE.get((buffer.dtype, width))
    return (op.args["kind"] == "add" and buffer.scope == GLOBAL and known is not None and target.sm >= known[1]
            and op.args.get("memory_order") in (None, "relaxed"))


def adds_fewer_at_once(op: TileOp, width: int, target: Target) -> bool:
    """Whether one instruction adds some neighbours, but not ``width`` of them."""
    return not adds_at_once(op, width, target) and any(adds_at_once(op, fewer, target) for fewer in (2, 4, 8) if fewer < width)


def wide_add(op: TileOp, buffer: Buffer, indices: tuple[Expr, ...], values: Buffer, width: int) -> Evaluate:
    """Add an array's elements to neighbours in memory."""
    bits = dtypes.bits(buffer.dtype)
    mnemonic, _ = _WIDE[buffer.dtype, width]
    words = "float" if bits == 32 else "unsigned int"
    count = bits * width // 32
    operands = ", ".join(f"%{k + 1}" for k in range(count))
    inputs = ", ".join(f'"{"f" if bits == 32 else "r"}"(w[{k}])' for k in range(count))
    name = f"tile_atomic_add_{buffer.dtype}x{width}"
    source = (f"__device__ __forceinline__ void {name}(void* address, const void* values) {{\n  {words} w[{count}];\n  __builtin_memcpy(w, values, sizeof(w));\n"
              f'  asm volatile("red.global.add.{mnemonic} [%0], {{{operands}}};" :: "l"(__cvta_generic_to_global(address)), {inputs} : "memory");\n}}\n')
    if count == 1:
        source = source.replace("{%1}", "%1")
    call = Call("void", op.span, "device_function", (address_of(buffer, indices), address_of(values, (const(0),))),
                {"name": name, "source": source, "writes": (0,), "bytes": bits // 8 * width})
    return Evaluate(op.span, call)


def _call(kind: str, buffer: Buffer, indices: tuple[Expr, ...], value: Expr | None, result: bool, target: Target, where: Any) -> Call:
    dtype = buffer.dtype
    if dtype not in C_TYPES or (kind not in ("load", "store") and kind not in _COMBINE):
        raise LoweringError(f"An atomic {kind} on {dtype} ({buffer.name}) has no lowering; use a 32-bit type.", getattr(where, "span", None), "atomic-dtype")
    name = f"tile_atomic_{kind}_{dtype}"
    source = _source(name, kind, dtype, target, where)
    args = (address_of(buffer, indices),) if value is None else (address_of(buffer, indices), value)
    return Call(dtype, getattr(where, "span", None), "device_function", args, {"name": name, "source": source, "writes": (0,)})


def _source(name: str, kind: str, dtype: str, target: Target, where: Any) -> str:
    t = C_TYPES[dtype]
    head = f"__device__ __forceinline__ {t} {name}(void* address, {t} value) {{\n  {t}* place = static_cast<{t}*>(address);\n"
    if kind == "load":
        return f"__device__ __forceinline__ {t} {name}(void* address) {{\n  return *static_cast<volatile {_volatile(dtype)}*>(address);\n}}\n"
    if kind == "store":
        return head + f"  *reinterpret_cast<volatile {_volatile(dtype)}*>(place) = value;\n  return value;\n}}\n"
    native = dtype in _NATIVE[kind] and not (dtype == "bfloat16" and target.sm < 80)
    if native:
        return head + f"  return atomic{kind.capitalize()}(place, value);\n}}\n"
    size = dtypes.bits(dtype) // 8
    if size not in _WORDS:
        raise LoweringError(f"An atomic {kind} on {dtype} has no lowering; use a 32-bit type.", getattr(where, "span", None), "atomic-dtype")
    word = _WORDS[size]
    return head + (f"  {word}* words = static_cast<{word}*>(address);\n  {word} seen = *words, assumed;\n  {t} old;\n  do {{\n    assumed = seen;\n"
                   f"    __builtin_memcpy(&old, &assumed, sizeof(old));\n    {t} made = static_cast<{t}>({_COMBINE[kind]});\n    {word} wanted;\n"
                   "    __builtin_memcpy(&wanted, &made, sizeof(wanted));\n    seen = atomicCAS(words, assumed, wanted);\n  } while (seen != assumed);\n"
                   "  return old;\n}\n")


def _volatile(dtype: str) -> str:
    if dtype in ("float16", "bfloat16"):
        raise LoweringError(f"Atomic loads and stores of {dtype} have no lowering; use a 32-bit type.", None, "atomic-dtype")
    return C_TYPES[dtype]


__all__ = ["C_TYPES", "atomic_statement", "lower_atomic_calls", "replace"]
