"""Arguments for kernels that nothing in the file calls: those of a kernel beside them with the same parameters."""
from __future__ import annotations

from typing import Any

from .definitions import KernelDefinition, KernelInstance, call_text
from .functions import bind_arguments
from .scope import Scope
from .values import DType, Function, HostTensor, is_unknown

MAX_INSTANCES = 2


def borrow(definition: KernelDefinition, kernels: list[KernelDefinition], scope: Scope) -> None:
    """Add the calls that a variant of the kernel gets, filled up from the module's names: they show what the kernel does, but prove no fault."""
    function = definition.function
    if function is None or any(i.origin != "unknown" and i.is_known() for i in definition.instances):
        return
    required = _required(function)
    if not required:
        return
    found: list[KernelInstance] = []
    for arguments in _sources(definition, kernels):
        kwargs = {n: _choose(n, arguments, scope) for n in required}
        if any(v is None for v in kwargs.values()) or not any(n in arguments for n in required):
            continue
        instance = KernelInstance(call_text(definition.name, [], kwargs), function, [], kwargs, "variant")
        if all(instance.text != other.text for other in found):
            found.append(instance)
    definition.instances += found[:MAX_INSTANCES]


def _required(function: Function) -> list[str]:
    spec = function.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    return positional[:len(positional) - len(function.defaults)] + [a.arg for a in spec.kwonlyargs if a.arg not in function.kw_defaults]


def _sources(definition: KernelDefinition, kernels: list[KernelDefinition]) -> list[dict[str, Any]]:
    """What the parameters of other kernels of this kind are given."""
    found = []
    for other in kernels:
        if other is definition or other.kind != definition.kind:
            continue
        for instance in other.instances:
            if instance.origin in ("call", "autotune", "directive", "command", "config"):
                found.append(bind_arguments(instance.function, instance.args, instance.kwargs)[0])
    return found


def _choose(name: str, arguments: dict[str, Any], scope: Scope) -> Any:
    """None if nothing is known for the parameter."""
    if name in arguments:
        return arguments[name]
    value = scope.names.get(name)
    return value if isinstance(value, (int, float, str, tuple, list, DType, HostTensor)) and not is_unknown(value) else None
