"""torch.nn.Module and torch.autograd.Function as bases of the user's classes."""
from __future__ import annotations

from typing import Any

from ..values import Class, Function, HostTensor, Instance, Native, is_unknown, unknown

MODULE = Class("Module", {})
FUNCTION = Class("Function", {})


def derives(cls: Any, base: Class) -> bool:
    return cls is base or any(derives(b, base) for b in getattr(cls, "bases", ()))


def apply_method(ev: Any, cls: Class) -> Native:
    """``Attention.apply``: the forward function, and the backward one with gradients like the results."""

    def call(ev: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        context = _context()
        result = _static(ev, cls, "forward", [context, *args])
        backward = cls.lookup("backward")
        if isinstance(backward, Function) and ev.builder is None and not context.attributes.get("_ran"):
            context.attributes["_ran"] = True
            _run_backward(ev, cls, context, result)
        return result

    return Native("apply", call)


def _context() -> Instance:
    context = Instance(Class("Context", {}, opaque=True), {}, True)

    def save(ev: Any, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        context.attributes["saved_tensors"] = tuple(args)
        return None

    context.attributes["save_for_backward"] = Native("save_for_backward", save)
    context.attributes["mark_non_differentiable"] = Native("mark_non_differentiable", lambda ev, a, k, n: None)
    return context


def _run_backward(ev: Any, cls: Class, context: Instance, result: Any) -> None:
    from ..evaluator import BreakSignal, ContinueSignal, Raised, ReturnSignal

    results = result if isinstance(result, tuple) else (result,)
    gradients = [r if isinstance(r, HostTensor) else unknown("gradient") for r in results]
    try:
        _static(ev, cls, "backward", [context, *gradients])
    except (Raised, ReturnSignal, BreakSignal, ContinueSignal):
        return


def _static(ev: Any, cls: Class, name: str, args: list[Any]) -> Any:
    method = cls.lookup(name)
    if not isinstance(method, Function):
        return unknown(name)
    needed = method.node.args
    if needed.vararg is None and len(args) > len(needed.args):
        args = args[:len(needed.args)]
    missing = len(needed.args) - len(needed.defaults) - len(args)
    return ev.call_function(method, [*args, *(unknown("argument") for _ in range(max(missing, 0)))], {})


def module_call(instance: Instance) -> Any:
    """``forward`` of an nn.Module that is called."""
    method = instance.cls.lookup("forward") if derives(instance.cls, MODULE) else None
    return method if isinstance(method, Function) else None


__all__ = ["FUNCTION", "MODULE", "apply_method", "derives", "is_unknown", "module_call"]
