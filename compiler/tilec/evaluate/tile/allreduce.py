"""T.tvm_thread_allreduce under T.comm_reducer: a reduction of one value a thread along a thread axis, as hand-written GEMV kernels use it."""
from __future__ import annotations

from typing import Any

from ...ir.expr import Binary, Expr, Var
from ...ir.stmt import TileOp
from ..evaluator import Evaluator
from ..values import Function, plain, unknown
from .elements import to_region
from .registry import Bound, api
from .scalar import number

_KINDS = {"add": "sum", "mul": "mul", "max": "max", "min": "min", "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor"}


@api("comm_reducer", "combiner identity")
def comm_reducer(ev: Evaluator, b: Bound) -> Any:
    """Which operation the combiner is: it is applied to two names and looked at."""
    if ev.builder is None:
        return unknown("T.comm_reducer")
    kind = None
    if isinstance(b["combiner"], Function):
        x, y = Var("float32", b.span, "x", "let"), Var("float32", b.span, "y", "let")
        made = ev.call(b["combiner"], [x, y], {}, None)
        if isinstance(made, Binary) and {made.a, made.b} == {x, y}:
            kind = _KINDS.get(made.op)
    ev.builder.attrs["thread_combiner"] = kind
    return unknown("T.comm_reducer")


@api("tvm_thread_allreduce", "size value condition dst *axes dtype=")
def tvm_thread_allreduce(ev: Evaluator, b: Bound) -> Any:
    builder = ev.builder
    if builder is None:
        return unknown("T.tvm_thread_allreduce")
    kind, dst, value = builder.attrs.get("thread_combiner"), to_region(b["dst"]), number(b["value"])
    axes = [a for a in b["axes"] or [] if isinstance(a, Var) and a.kind == "thread"]
    if kind is None or dst is None or not isinstance(value, Expr) or len(axes) != len(b["axes"] or []) or plain(b["condition"]) is not True:
        touched = {f"arg{i}": r for i, r in enumerate(map(to_region, (b["value"], b["dst"]))) if r is not None}
        builder.emit(TileOp(b.span, "unsupported", {"name": "T.tvm_thread_allreduce", **touched}))
        return unknown("T.tvm_thread_allreduce")
    builder.emit(TileOp(b.span, "thread_allreduce", {"dst": dst, "value": value, "kind": kind, "axes": tuple(axes)}, b.spans()))
    return None
