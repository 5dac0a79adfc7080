"""TIR's own ways to make buffers and vectors: T.alloc_buffer, T.decl_buffer, T.match_buffer, T.Ramp, T.Broadcast."""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import GLOBAL, Buffer
from ...ir.build import call, cast, lift
from ...ir.expr import Expr, Var
from ...ir.stmt import Let
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import DType, LoopValue, is_unknown, plain, unknown
from .alloc import allocate, shape_argument
from .axes import AXES, axis_index
from .pointers import tensor_at
from .registry import Bound, api
from .scalar import number
from .scopes import WhileLoop

_BUFFER = "shape dtype= data= strides= elem_offset= scope= align= offset_factor= buffer_type= axis_separators= logical_shape= annotations="


def _dtype(b: Bound) -> str:
    return b.dtype("dtype") if b["dtype"] is not None else "float32"


def _make(ev: Evaluator, b: Bound) -> Any:
    """A buffer of its own, or another name for the memory that ``data`` points to."""
    shape = shape_argument(ev, b)
    scope = b["scope"] if isinstance(b["scope"], str) else GLOBAL
    if b["data"] is None:
        return allocate(ev, b, shape, _dtype(b), scope)
    return tensor_at(ev, b, _dtype(b))


for _name in ("alloc_buffer", "decl_buffer", "sblock_alloc_buffer"):
    api(_name, _BUFFER)(_make)


@api("match_buffer", "param shape dtype= data= strides= elem_offset= scope= align= offset_factor= buffer_type= axis_separators=")
def match_buffer(ev: Evaluator, b: Bound) -> Any:
    """A tensor parameter that the signature names by its handle only."""
    builder, shape = ev.builder, shape_argument(ev, b)
    if builder is not None and b["param"] not in builder.params:
        builder.attrs["unknown_params"] = True
    if builder is None or shape is None or b["param"] not in builder.params:
        return unknown("T.match_buffer")
    made = Buffer(builder.unique(b["param"].name), shape, _dtype(b), GLOBAL, b.span, attrs={"unnamed": True})
    builder.params[builder.params.index(b["param"])] = made
    return made


@api("handle", "dtype= storage_scope= type_span=")
def handle(ev: Evaluator, b: Bound) -> Any:
    """``T.handle("float32", "global")`` as an annotation."""
    return DType("handle")


# -- vectors --------------------------------------------------------------------------------------------------------------
@api("Ramp", "base stride lanes span=")
def ramp(ev: Evaluator, b: Bound) -> Any:
    base, stride, lanes = number(b["base"]), number(b["stride"]), plain(scalar_operand(b["lanes"]))
    if is_unknown(base) or is_unknown(stride) or not isinstance(lanes, int) or ev.builder is None:
        return unknown("T.Ramp")
    base = lift(base)
    return call("ramp", (base, cast(stride, base.dtype)), f"{dtypes.scalar(base.dtype)}x{lanes}", b.span, lanes=lanes)


@api("Broadcast", "value lanes span=")
def broadcast(ev: Evaluator, b: Bound) -> Any:
    value, lanes = number(b["value"]), plain(scalar_operand(b["lanes"]))
    if is_unknown(value) or not isinstance(lanes, int) or ev.builder is None:
        return unknown("T.Broadcast")
    value = lift(value)
    return call("broadcast", (value,), f"{dtypes.scalar(value.dtype)}x{lanes}", b.span, lanes=lanes)


@api("extract_lane", "vector lane")
def extract_lane(ev: Evaluator, b: Bound) -> Any:
    vector, lane = number(b["vector"]), plain(scalar_operand(b["lane"]))
    if is_unknown(vector) or not isinstance(vector, Expr) or not isinstance(lane, int) or ev.builder is None:
        return unknown("T.extract_lane")
    if vector.dtype == dtypes.UNKNOWN or not 0 <= lane < dtypes.lanes(vector.dtype):
        return unknown("T.extract_lane")
    return call("extract_lane", (vector,), dtypes.scalar(vector.dtype), b.span, lane=lane)


@api("let", "v value body=")
def let(ev: Evaluator, b: Bound) -> Any:
    """``T.let(v, value)`` as a statement: ``v`` has the value from here on."""
    value = number(b["value"])
    if ev.builder is None or b["body"] is not None or not isinstance(b["v"], Var):
        return unknown("T.let")
    ev.builder.emit(Let(b.span, b["v"], cast(lift(value), b["v"].dtype)))
    return None


# -- loops ----------------------------------------------------------------------------------------------------------------
@api("While", "condition")
def while_loop(ev: Evaluator, b: Bound) -> Any:
    cond = scalar_operand(b["condition"])
    return WhileLoop(cond) if isinstance(cond, Expr) and not is_unknown(cond) and ev.builder is not None else unknown("T.While")


# -- indices of blocks and threads -------------------------------------------------------------------------------------------
@api("launch_thread", "thread extent")
def launch_thread(ev: Evaluator, b: Bound) -> Any:
    axis = _axis_of(ev, b["thread"])
    if axis not in AXES or ev.builder is None:
        return unknown("T.launch_thread")
    return LoopValue("thread_binding", 0, (plain(scalar_operand(b["extent"])),), 1, {"axis": axis, "launches": True}, b.span)


@api("env_thread", "thread_tag dtype=")
def env_thread(ev: Evaluator, b: Bound) -> Any:
    return axis_index(ev, b["thread_tag"], None, b.span)


def _axis_of(ev: Evaluator, thread: Any) -> Any:
    """The axis by its name or by the variable of T.env_thread."""
    launch = ev.builder.launch if ev.builder is not None else None
    if not isinstance(thread, Var) or launch is None:
        return thread
    for kind, variables in (("block", launch.block_vars), ("thread", launch.thread_vars)):
        if thread in variables:
            return f"{kind}Idx.{'xyz'[variables.index(thread)]}"
    return None
