"""What calling a compiled kernel on the host gives: the tensors the runtime allocates, by shape and dtype."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from .functions import bind, run_function
from .values import Compiled, Function, HostTensor, TensorType, is_unknown, plain, unknown


def kernel_result(ev: Evaluator, kernel: Compiled) -> Any:
    """The outputs that ``out_idx`` names, from the annotations of the prim_func's parameters."""
    options = {**kernel.function.jit, **getattr(kernel.instance, "options", {})}
    out_idx = options.get("out_idx")
    if out_idx is None:
        return None if kernel.function.kind == "lazy" and "out_idx" not in options else unknown("kernel result")
    indices = [out_idx] if isinstance(out_idx, int) else out_idx
    inner = _prim_func(ev, kernel)
    if inner is None or not isinstance(indices, (list, tuple)) or not isinstance(inner.node, ast.FunctionDef):
        return unknown("kernel result")
    parameters = inner.node.args.args
    if not all(isinstance(i, int) and -len(parameters) <= i < len(parameters) for i in indices):
        return unknown("kernel result")
    made = [_tensor(ev, inner, parameters[i]) for i in indices]
    return made[0] if len(made) == 1 else tuple(made)


def _prim_func(ev: Evaluator, kernel: Compiled) -> Function | None:
    """The prim_func of a factory at the arguments it was called with."""
    if kernel.function.kind == "prim_func":
        return kernel.function
    instance = kernel.instance
    if instance is None:
        return None
    scope = bind(ev, instance.function, instance.args, instance.kwargs)
    if scope is None:
        return None
    hook, ev.on_call = ev.on_call, None
    try:
        made = run_function(ev, instance.function, scope)
    except (Raised, ReturnSignal, BreakSignal, ContinueSignal):
        return None
    finally:
        ev.on_call = hook
    return made if isinstance(made, Function) and made.kind == "prim_func" else None


def _tensor(ev: Evaluator, function: Function, parameter: ast.arg) -> Any:
    from .instantiate import evaluate_annotation

    kind = evaluate_annotation(ev, parameter.annotation, function.scope) if parameter.annotation is not None else None
    if not isinstance(kind, TensorType) or kind.shape is None:
        return unknown("kernel result")
    return HostTensor(tuple(unknown("extent") if is_unknown(e) else plain(e) for e in kind.shape), kind.dtype)
