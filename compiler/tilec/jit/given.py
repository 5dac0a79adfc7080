"""What is told of arguments that a kernel's function cannot take."""
from __future__ import annotations

import inspect
import types
from collections.abc import Collection
from typing import Any

from ..emit.arguments import ArgumentError


def bound_arguments(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], lazy: bool) -> dict[str, Any]:
    """The arguments by parameter; a factory's call tells by itself what does not bind. Raises TypeError with the parameters' names."""
    signature = inspect.signature(function)
    named = {k: v for k, v in kwargs.items() if k in signature.parameters}  # the others are T.const values
    try:
        return dict(signature.bind_partial(*args, **named).arguments)
    except TypeError as error:
        if lazy:
            return {}
        raise TypeError(f"{function.__name__}: {error}; its parameters: {', '.join(signature.parameters)}") from None


def refuse_arrays(name: str, bound: dict[str, Any], tensors: Collection[str]) -> None:
    """Raises ArgumentError for a numpy array or a list in the place of a tensor."""
    for index, (parameter, value) in enumerate(bound.items()):
        kind = type(value)
        if parameter not in tensors or not (kind in (list, tuple) or (kind.__module__.split(".")[0] == "numpy" and hasattr(value, "ndim") and value.ndim > 0)):
            continue
        call = "tensor" if kind in (list, tuple) else "from_numpy"
        raise ArgumentError(f"{name}: Expect arg[{index}] ({parameter}) to be a tensor, but it is {kind.__name__}; pass torch.{call}({parameter})")


def refuse_tensors(name: str, bound: dict[str, Any], tensors: Collection[str] | None, lazy: bool, error: Exception) -> None:
    """Raises ArgumentError where a tensor in the place of a number is the reason that a kernel could not be compiled."""
    if tensors is None or "not known" not in str(error):
        return
    for index, (parameter, value) in enumerate(bound.items()):
        if hasattr(type(value), "data_ptr") and parameter not in tensors:
            why = "the tensors go to the kernel that the call makes" if lazy else f"the kernel's tensors are {', '.join(tensors) or 'not known'}"
            raise ArgumentError(f"{name}: Expect arg[{index}] ({parameter}) to be a number or a data type, but it is a tensor; {why}") from error
