"""T.print and T.device_assert as device functions."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from ..ir import dtypes
from ..ir.build import as_bool, cast, lift
from ..ir.expr import Call, Expr
from ..ir.stmt import Body, Evaluate, TileOp


def lower_debugging(op: TileOp, expression: Callable[[Expr], Expr]) -> Body:
    """One element printed, or one condition checked, by the thread that runs this."""
    if op.op == "device_assert":
        return (Evaluate(op.span, _assert(expression(as_bool(lift(op.args["condition"]))), op)),)
    value = expression(lift(op.args["value"]))
    return (Evaluate(op.span, print_call(value, str(op.args.get("message") or ""))),)


def print_call(value: Expr, message: str) -> Call:
    wide, kind, form = (("float32", "float", "%f") if dtypes.is_float(value.dtype) else ("int64", "long long", "%lld"))
    text = json.dumps(f"{message.replace('%', '%%')}{': ' if message else ''}{form} (block %d %d %d, thread %d)\n")
    name = f"tile_print_{kind.replace(' ', '_')}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    source = (f"__device__ __noinline__ void {name}({kind} value) {{\n  printf({text}, value, (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z, "
              "(int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)));\n}\n")
    return Call("void", None, "device_function", (cast(value, wide),), {"name": name, "source": source, "writes": ()})


def _assert(cond: Expr, op: TileOp) -> Call:
    where = f"{op.span.path}:{op.span.line}" if op.span is not None else ""
    text = json.dumps(f"device assertion failed{' at ' + where if where else ''}{': ' + str(op.args['message']) if op.args.get('message') else ''}"
                      .replace("%", "%%") + "\n")
    name = f"tile_assert_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    source = f"__device__ __noinline__ void {name}(int holds) {{\n  if (!holds) {{ printf({text}); __trap(); }}\n}}\n"
    return Call("void", None, "device_function", (cast(cond, "int32"),), {"name": name, "source": source, "writes": ()})
