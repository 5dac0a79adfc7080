"""The reference and input functions of a kernel's file: finding them by name or directive, and calling them."""
from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from ..records import dataclass
from ..source.file import SourceFile
from .inputs import Roles, stored_dtype
from .usermodule import UserModule

_NAMES = ("reference", "ref_program", "reference_program", "ref")


class ReferenceFault(Exception):
    """The user's reference or input function is missing, fails, or returns something that does not fit."""


@dataclass(frozen=True)
class UserFunctions:
    """Names of top-level functions of the file, "" where there is none."""

    reference: str
    inputs: str


def find_functions(source: SourceFile, kernel_names: Sequence[str], first_line: int = 0) -> UserFunctions:
    """By directive (``# tile-lsp: reference=name``; with several, the last above the kernel), else by the usual names."""
    defined = {s.name for s in source.tree.body if isinstance(s, (ast.FunctionDef, ast.ClassDef))}
    defined |= {t.id for s in source.tree.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    own = [f"{stem}_{k}" for k in kernel_names for stem in ("ref", "reference")] + [f"{k}_{end}" for k in kernel_names for end in ("ref", "reference")]
    own_inputs = [f"inputs_{k}" for k in kernel_names] + [f"{k}_inputs" for k in kernel_names]
    return UserFunctions(_choose(source, "reference", (*own, *_NAMES), defined, first_line),
                         _choose(source, "inputs", (*own_inputs, "inputs", "make_inputs"), defined, first_line))


def _choose(source: SourceFile, kind: str, names: Sequence[str], defined: set[str], first_line: int) -> str:
    given = [d for d in source.directives if d.kind == kind and d.text]
    above = [d for d in given if not first_line or d.line <= first_line] or given[:1]
    if above:
        name = above[-1].text.split()[0]
        if name not in defined:
            raise ReferenceFault(f"line {above[-1].line} of {source.path} names the {kind} function {name!r}, which the file does not define at its top level")
        return name
    return next((n for n in names if n in defined), "")


# -- inputs --------------------------------------------------------------------------------------------------------------------
def user_inputs(module: UserModule, name: str, program: TileProgram, roles: Roles, instance: Mapping[str, Any], made: list[Any]) -> list[Any]:
    """What the file's input function returns, in place of the made arguments. Declared outputs stay as made."""
    function = _function(module, name)
    signature = inspect.signature(function)
    takes = {k: v for k, v in instance.items() if k in signature.parameters}
    missing = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
               and p.name not in takes]
    if missing:
        raise ReferenceFault(f"{name} of {module.path} takes {missing[0]!r}, which is no argument of the kernel's instance")
    returned = _called(module, name, lambda: function(**takes))
    given = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    slots = [i for i, p in enumerate(program.params) if p not in roles.declared]
    if len(given) == len(program.params):
        slots = list(range(len(program.params)))
    if len(given) != len(slots):
        names = ", ".join(program.params[i].name for i in slots)
        raise ReferenceFault(f"{name} of {module.path} returns {len(given)} values; {program.name} takes {len(slots)}: {names}")
    result = list(made)
    for slot, value in zip(slots, given):
        result[slot] = value.detach().cpu().contiguous() if isinstance(value, torch.Tensor) else value
    _check_inputs(module, name, program, result)
    return result


def _check_inputs(module: UserModule, function: str, program: TileProgram, values: list[Any]) -> None:
    for p, value in zip(program.params, values):
        if isinstance(p, Buffer):
            if not isinstance(value, torch.Tensor):
                raise ReferenceFault(f"{function} of {module.path} returns {type(value).__name__} for {p.name}, which is a tensor")
            if value.dtype != stored_dtype(p.dtype) or value.ndim != p.ndim:
                raise ReferenceFault(f"{function} of {module.path} returns a {value.ndim}-dimensional {value.dtype} tensor for {p.name}, which is "
                                      f"{p.ndim}-dimensional {p.dtype}")


# -- reference ------------------------------------------------------------------------------------------------------------------
def call_reference(module: UserModule, name: str, program: TileProgram, roles: Roles, instance: Mapping[str, Any], values: Sequence[Any]) -> list[torch.Tensor]:
    """The expected outputs. The function gets the inputs in order; all tensors where it takes that many; instance arguments by name."""
    function = _function(module, name)
    arguments = [v.clone() if isinstance(v, torch.Tensor) else v for v in values]
    positional, extra = _bind(module, name, function, program, roles, instance, arguments)
    returned = _called(module, name, lambda: function(*positional, **extra))
    if returned is None:
        returned = tuple(a for p, a in zip(program.params, arguments) if p in roles.outputs)
        if not any(a is b for a in (*positional, *extra.values()) for b in returned):
            raise ReferenceFault(f"{name} of {module.path} returns nothing and is not given the outputs; return the expected output")
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(results) != len(roles.outputs) or not all(isinstance(r, torch.Tensor) for r in results):
        raise ReferenceFault(f"{name} of {module.path} returns {len(results)} values; {program.name} has {len(roles.outputs)} output tensors "
                              f"({', '.join(o.name for o in roles.outputs)})")
    shapes = {p: tuple(v.shape) for p, v in zip(program.params, values) if isinstance(p, Buffer)}
    for output, result in zip(roles.outputs, results):
        if tuple(result.shape) != shapes[output]:
            raise ReferenceFault(f"{name} of {module.path} returns shape {list(result.shape)} for {output.name}, whose shape is {list(shapes[output])}")
    return [r.detach().cpu() for r in results]


def _bind(module: UserModule, name: str, function: Any, program: TileProgram, roles: Roles, instance: Mapping[str, Any],
          arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    tensor_names = {p.name for p in program.params}
    inputs = [a for p, a in zip(program.params, arguments) if p not in roles.outputs]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return inputs, {}
    extra = {p.name: instance[p.name] for p in parameters if p.name in instance and p.name not in tensor_names}
    open_ = [p for p in parameters if p.name not in extra and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in open_)
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return inputs, extra
    undeclared = [a for p, a in zip(program.params, arguments) if p not in roles.declared]
    for candidate in (inputs, undeclared, arguments):
        if required <= len(candidate) <= len(open_):
            return _named(open_, candidate, extra)
    by_name = {p.name: a for p, a in zip(program.params, arguments)}
    if all(p.name in by_name for p in open_ if p.default is p.empty):
        return [], {**extra, **{p.name: by_name[p.name] for p in open_ if p.name in by_name}}
    names = ", ".join(p.name for p in program.params if p not in roles.outputs)
    raise ReferenceFault(f"{name} of {module.path} takes {required} arguments, {program.name} has {len(inputs)} inputs ({names}); give it the inputs in "
                          "that order")


def _named(open_: list[inspect.Parameter], values: list[Any], extra: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Values by name where positions would collide with instance arguments given by name."""
    if any(p.kind == p.POSITIONAL_ONLY for p in open_):
        return list(values), extra
    return [], {**{p.name: v for p, v in zip(open_, values)}, **extra}


def _function(module: UserModule, name: str) -> Any:
    found = module.names.get(name)
    if not callable(found):
        raise ReferenceFault(f"{name} of {module.path} cannot be used" + (f": {module.failure}" if module.failure else ": it is no function"))
    return found


def _called(module: UserModule, name: str, call: Any) -> Any:
    try:
        with torch.no_grad():
            return call()
    except Exception as error:
        hint = f" (before that, {module.failure})" if module.failure and isinstance(error, NameError) else ""
        raise ReferenceFault(f"{name} of {module.path} raises {type(error).__name__}: {' '.join(str(error).split())}{_line(error, module.path)}{hint}") from error


def _line(error: BaseException, path: str) -> str:
    """Where in the user's file an exception came from."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f", at line {line}" if line else ""
