"""Pointers: T.access_ptr, T.address_of, buffer.data, tensors made from pointers; calls of functions written in C."""
from __future__ import annotations

from typing import Any

from ...ir.buffer import GLOBAL, Buffer, Region, whole
from ...ir.build import call, lift
from ...ir.expr import Call, Expr, Load
from ...ir.stmt import Alloc, TileOp
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import MISSING, DType, Native, dtype_name, is_unknown, plain, unknown
from .alloc import shape_argument
from .elements import to_region
from .intrinsics import first_element
from .registry import Bound, api

_ACCESS = ("r", "w", "rw")


def pointer(place: Load, access: Any = "rw", span: Any = None) -> Expr:
    """A pointer to an element. What is done through it is not known, so rules stay silent about the buffer."""
    return call("access_ptr", (place,), "handle", span, access=access)


# -- making pointers ----------------------------------------------------------------------------------------------------------
@api("access_ptr", "base access_type= *extents offset= extent= ignore_last_ndim=")
def access_ptr(ev: Evaluator, b: Bound) -> Any:
    access = b["access_type"]
    if isinstance(access, str) and access not in _ACCESS:
        ev.problem("argument-kind", f"T.access_ptr: access_type is {access!r}; it is 'r', 'w' or 'rw'", b.where("access_type"))
    place = first_element(b["base"])
    if place is None or ev.builder is None:
        return unknown("T.access_ptr")
    return pointer(place, access, b.span)


@api("address_of", "obj span=")
def address_of(ev: Evaluator, b: Bound) -> Any:
    place = first_element(b["obj"])
    return unknown("T.address_of") if place is None or ev.builder is None else pointer(place, "rw", b.span)


@api("tvm_access_ptr", "ptype data offset extent rw_mask")
def tvm_access_ptr(ev: Evaluator, b: Bound) -> Any:
    data = b["data"]
    return unknown("T.tvm_access_ptr") if not isinstance(data, Expr) or is_unknown(data) or ev.builder is None else data


@api("handle_add_byte_offset", "handle offset")
def handle_add_byte_offset(ev: Evaluator, b: Bound) -> Any:
    value = b["handle"]
    return unknown("T.handle_add_byte_offset") if not isinstance(value, Expr) or is_unknown(value) or ev.builder is None else value


@api("isnullptr", "x span=")
def isnullptr(ev: Evaluator, b: Bound) -> Any:
    value = b["x"]
    return unknown("T.isnullptr") if not isinstance(value, Expr) or is_unknown(value) else call("isnullptr", (value,), "bool", b.span)


def buffer_member(buffer: Buffer, name: str) -> Any:
    """``buffer.data``, ``buffer.access_ptr(...)`` and ``buffer.elem_offset``; MISSING for anything else."""
    start = whole(buffer)
    if name == "data":
        return pointer(Load(buffer.dtype, None, buffer, start.mins))
    if name == "access_ptr":
        return Native(name, lambda ev, args, kwargs, node: pointer(Load(buffer.dtype, None, buffer, start.mins)))
    if name == "elem_offset" and buffer.offset is None:
        return 0
    return MISSING


# -- tensors from pointers ----------------------------------------------------------------------------------------------------
def _tensor(ev: Evaluator, b: Bound, source: str) -> Any:
    dtype = b.dtype("dtype") if "dtype" in b.given else "float32"
    shape = shape_argument(ev, b)
    if ev.builder is None or shape is None:
        return unknown(f"T.{b.name}")
    strides = shape_argument(ev, b, "strides") if b["strides"] is not None else None
    buffer = Buffer(ev.builder.unique("tensor"), shape, dtype, GLOBAL, b.span, strides,
                    attrs={"unnamed": True, "pointer": b[source], "spans": b.spans()})
    ev.builder.emit(Alloc(b.span, buffer))
    return buffer


@api("make_tensor", "ptr shape dtype= strides=")
def make_tensor(ev: Evaluator, b: Bound) -> Any:
    return _tensor(ev, b, "ptr")


@api("make_tensor_from_addr", "addr shape dtype= strides= storage_scope=")
def make_tensor_from_addr(ev: Evaluator, b: Bound) -> Any:
    return _tensor(ev, b, "addr")


def tensor_at(ev: Evaluator, b: Bound, dtype: str) -> Any:
    """``T.Tensor(shape, dtype, buffer.data)``: another tensor over a buffer's memory."""
    data, shape = b["data"], shape_argument(ev, b)
    if ev.builder is None or shape is None or not isinstance(data, Call) or data.op != "access_ptr" or not isinstance(data.args[0], Load):
        return unknown("T.Tensor")
    source = data.args[0].buffer
    strides = shape_argument(ev, b, "strides") if b["strides"] is not None else None
    buffer = Buffer(ev.builder.unique(source.name), shape, dtype, source.scope, b.span, strides, view_of=source,
                    attrs={"unnamed": True, "spans": b.spans()})
    ev.builder.emit(Alloc(b.span, buffer))
    return buffer


# -- functions written in C ---------------------------------------------------------------------------------------------------
def call_argument(value: Any) -> Any:
    """A call's argument: a pointer, a buffer, a scalar, a type or a text; None if it is not known."""
    if isinstance(value, DType):
        return value.name
    if value is None:
        return ""
    if isinstance(value, (Buffer, Region)):
        return to_region(value)
    if isinstance(value, str) and not is_unknown(value):
        return value
    value = plain(scalar_operand(value))
    if isinstance(value, (int, float)):
        return lift(value)
    return value if isinstance(value, Expr) and not is_unknown(value) else None


def external_call(name: str, first: str) -> None:
    def handler(ev: Evaluator, b: Bound) -> Any:
        if ev.builder is None:
            return unknown(f"T.{name}")
        dtype = "void" if b["dtype"] == "void" else dtype_name(b["dtype"]) or "handle"
        args = [call_argument(a) for a in b["args"]]
        if any(a is None for a in args):
            touched = {f"arg{i}": r for i, r in enumerate(map(to_region, b["args"])) if r is not None}
            ev.builder.emit(TileOp(b.span, "unsupported", {"name": f"T.{name}", **touched}))
            return unknown(f"T.{name}")
        function = b[first]
        return Call(dtype, b.span, name, tuple(args), {"function": function if isinstance(function, str) else str(function)})

    api(name, f"dtype {first} *args span= annotations=")(handler)


for _name in ("call_extern", "call_pure_extern", "call_intrin"):
    external_call(_name, "func_name")
for _name in ("call_llvm_intrin", "call_llvm_pure_intrin"):
    external_call(_name, "name")


@api("evaluate", "value")
def evaluate(ev: Evaluator, b: Bound) -> Any:
    """A value for its effect."""
    from ...ir.stmt import Evaluate

    value = b["value"]
    if ev.builder is not None and isinstance(value, Call):
        ev.builder.emit(Evaluate(b.span, value))
    elif ev.builder is not None and isinstance(value, (Load, Region)):  # no effect, but the buffer is used
        ev.builder.emit(TileOp(b.span, "annotate", {"name": "evaluate", "value": to_region(value)}))
    elif ev.builder is not None and is_unknown(value) and not str(value.reason).startswith("T."):
        ev.builder.emit(TileOp(b.span, "unsupported", {"name": "T.evaluate"}))
    return None
