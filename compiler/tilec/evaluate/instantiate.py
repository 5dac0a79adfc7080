"""From a kernel and an instance to its tile program."""
from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ..ir.buffer import Buffer
from ..ir.program import TileProgram
from .blocks import statements_within
from .calls import PRIM_FUNC_CALL
from .const_places import stands_in_a_shape
from .coverage import gap
from .definitions import KernelDefinition, KernelInstance
from .evaluator import BreakSignal, ContinueSignal, Declared, Evaluator, Raised, ReturnSignal, Stop
from .functions import bind_arguments, defaults, run_function
from .module import ModuleAnalysis
from .scope import Scope
from .sizes import with_sizes
from .tile.builder import Builder
from .tile.launch import finish
from .tile.signature import make_parameter, occurs_plainly, solve, symbols_of
from .values import Function, HostTensor, Module, Native, TensorType, dtype_name, is_unknown, unknown
from .workspace import Workspace


def instantiate(analysis: ModuleAnalysis, kernel: KernelDefinition, instance: KernelInstance, trail: Any = None) -> TileProgram:
    """Trace a kernel at an instance.

    Never raises for what the user wrote. ``attrs`` of the result: ``problems`` (found while tracing), ``incomplete``
    (why there is no complete program, or None), ``kind``, and what @tilelang.jit was given (``out_idx``, ``pass_configs``, ``target``).
    Arguments that are not known become symbols if that yields a program in which everything else is known.
    """
    program = _instantiate(analysis, kernel, instance, trail)
    arguments = with_sizes(instance.function, instance.args, instance.kwargs)
    if arguments is None or gap(program) is None:
        return program
    found = _instantiate(analysis, kernel, replace(instance, args=arguments[0], kwargs=arguments[1]), None)
    return program if gap(found) is not None else found


def _instantiate(analysis: ModuleAnalysis, kernel: KernelDefinition, instance: KernelInstance, trail: Any) -> TileProgram:
    ev = Evaluator(analysis.source, analysis.workspace or Workspace())
    ev.reporting = True
    ev.trail = trail
    program = TileProgram(kernel.name, [], (), kernel.name_span, instance=instance.text, path=analysis.source.path)
    incomplete: str | None = None
    try:
        _trace(ev, kernel, instance, program)
    except Stop:
        incomplete = "evaluating it takes too long"
    except RecursionError:
        incomplete = "it is nested too deeply"
    except Raised as error:
        incomplete = f"it raises {error.kind}" + (f": {error}" if str(error) else "")
    except (ReturnSignal, BreakSignal, ContinueSignal):
        incomplete = "it leaves the kernel in a way that is not understood"
    options = {**instance.function.jit, **instance.options}
    annotated = program.attrs.get("pass_configs")
    if isinstance(annotated, dict) and isinstance(options.get("pass_configs") or {}, dict):
        options["pass_configs"] = {**annotated, **(options.get("pass_configs") or {})}
    program.attrs.update({k: options[k] for k in ("out_idx", "pass_configs", "target", "out_idx_span") if k in options})
    program.attrs.update(targets=tuple(instance.targets), expects_failure=instance.expects_failure)
    if incomplete is None:
        _apply_out_idx(ev, kernel, program)
    program.attrs.setdefault("incomplete", incomplete)
    program.attrs["problems"] = [] if incomplete is not None and "raises" in incomplete else list(ev.problems)
    program.attrs["api_calls"] = list(ev.api_calls.values())
    program.attrs["kind"] = kernel.kind
    program.dynamic = symbols_of(program.params)
    return program


def _trace(ev: Evaluator, kernel: KernelDefinition, instance: KernelInstance, program: TileProgram) -> None:
    function = instance.function
    if kernel.kind == "eager":
        _trace_eager(ev, kernel, instance, program)
        return
    if kernel.kind == "prim_func":
        _trace_prim_func(ev, function, program)
        return
    inner = _call_factory(ev, kernel, instance)
    if isinstance(inner, Function) and inner.kind == "prim_func":
        program.name = inner.name
        _trace_prim_func(ev, inner, program)
        return
    _explain_missing(ev, kernel, inner, program)


def _call_factory(ev: Evaluator, kernel: KernelDefinition, instance: KernelInstance) -> Any:
    function = instance.function
    if function.kind == "prim_func":
        return function
    values, _ = bind_arguments(function, instance.args, instance.kwargs)
    scope = Scope(function.scope, "function", function.source)
    scope.names.update(values)
    try:
        made = run_function(ev, function, scope)
    except Raised:
        made = _kept(ev, function)
        if made is None:
            raise
    return made if isinstance(made, Function) or function.kind != "plain" else _kept(ev, function) or made


def _kept(ev: Evaluator, function: Function) -> Function | None:
    """The prim_func that a function which is no factory (a test, say) keeps to itself: the first of them."""
    inside = set(statements_within(function.node)) if function.kind == "plain" else set()
    return next((f for f in ev.prim_funcs if f.node in inside), None)


def _explain_missing(ev: Evaluator, kernel: KernelDefinition, inner: Any, program: TileProgram) -> None:
    program.attrs["incomplete"] = "its prim_func is not known"
    if inner is None:
        ev.problem("missing-return", f"{kernel.name} does not return its prim_func; the factory's result is None", kernel.name_span)
    elif is_unknown(inner) and inner.reason == PRIM_FUNC_CALL:
        where = _return_node(kernel.node)
        ev.problem("missing-return", f"{kernel.name} returns the result of calling the prim_func; return the function itself", where or kernel.name_span)


def _return_node(node: ast.FunctionDef) -> ast.AST | None:
    returns = [s for s in node.body if isinstance(s, ast.Return)]
    return returns[-1].value or returns[-1] if returns else None


# -- prim_func ------------------------------------------------------------------------------------------------------------------
def _trace_prim_func(ev: Evaluator, function: Function, program: TileProgram) -> None:
    builder = Builder("lazy")
    scope = Scope(function.scope, "kernel", function.source)
    outer, ev.source = ev.source, function.source or ev.source
    ev.builder = builder
    try:
        assert isinstance(function.node, ast.FunctionDef)
        spec = function.node.args
        if spec.posonlyargs:
            ev.problem("arg-annotation", "a kernel takes no positional-only parameters: leave the '/' out", spec.posonlyargs[0])
        for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            scope.names[argument.arg] = _parameter(ev, function, argument)
        if spec.vararg is not None:
            scope.names[spec.vararg.arg] = ()  # TileLang passes none
        _run_body(ev, function, scope)
    finally:
        _take(ev, builder, program)
        ev.source = outer


def _parameter(ev: Evaluator, function: Function, argument: ast.arg) -> Any:
    assert ev.builder is not None
    if argument.annotation is None:
        if _annotated_in_body(function, argument.arg):
            return unknown(f"parameter {argument.arg}")  # until that statement declares it
        given = defaults(function)
        if argument.arg in given:
            return given[argument.arg]  # a value of Python's that nobody can change
        ev.problem("arg-annotation", f"parameter {argument.arg!r} has no annotation; a prim_func's parameters are tensors (T.Tensor(shape, dtype)) or "
                   "typed scalars", argument)
        ev.builder.attrs["unknown_params"] = True
        return unknown(f"parameter {argument.arg}")
    annotation = evaluate_annotation(ev, argument.annotation, function.scope)
    _check_python_type(ev, function, argument, annotation)
    value = make_parameter(ev, argument.arg, annotation, argument)
    if ev.trail is not None:
        ev.trail.saw(argument, value)
    return value


_SCALARS = {"int": "T.int32", "float": "T.float32", "bool": "T.bool"}
_PYTHON_TYPES = (*_SCALARS, "list", "tuple", "dict", "set", "str")


def _check_python_type(ev: Evaluator, function: Function, argument: ast.arg, annotation: Any) -> None:
    """``n: int`` makes n the type itself, of which no expression can be made; unused, nobody minds."""
    name = annotation.name if isinstance(annotation, Native) else ""
    owner, is_type = "Python's ", name in _PYTHON_TYPES
    if is_unknown(annotation) and _is_torch_tensor(ev, argument.annotation, function.scope):
        owner, name, is_type = "", "torch.Tensor", not _annotated_in_body(function, argument.arg)
    if is_type and argument.arg in {n.id for n in ast.walk(function.node) if isinstance(n, ast.Name)}:
        instead = f"use {_SCALARS[name]}" if name in _SCALARS else "a kernel's parameters are tensors (T.Tensor(shape, dtype)) or typed scalars"
        ev.problem("arg-annotation", f"parameter {argument.arg!r} is annotated with {owner}{name}, which is no type of the device; {instead}", argument)


def _is_torch_tensor(ev: Evaluator, node: Any, scope: Scope) -> bool:
    """Eager kernels take ``A: torch.Tensor`` and declare the tensor in the body; a prim_func gets the class itself."""
    if not isinstance(node, ast.Attribute) or node.attr != "Tensor":
        return False
    module = ev.eval(node.value, scope)
    return isinstance(module, Module) and module.name == "torch"


def _annotated_in_body(function: Function, name: str) -> bool:
    """``A: T.Tensor(...)`` as a statement: TileLang 0.1.15 takes it in a prim_func as in an eager kernel."""
    body = function.node.body
    return isinstance(body, list) and any(isinstance(s, ast.AnnAssign) and s.value is None and isinstance(s.target, ast.Name) and s.target.id == name
                                          for s in body)


def evaluate_annotation(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """The value of an annotation; one written as a string is parsed first."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if dtype_name(node.value) is not None:
            from .values import DType

            return DType(dtype_name(node.value) or "")
        try:
            inner = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return unknown("annotation")
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        return ev.eval(inner, scope)
    return ev.eval(node, scope)


def _run_body(ev: Evaluator, function: Function, scope: Scope) -> None:
    run_function(ev, function, scope)
    finish(ev)


def _take(ev: Evaluator, builder: Builder, program: TileProgram) -> None:
    """Move what was traced into the program, closing whatever an early end left open."""
    finish(ev)
    while len(builder.bodies) > 1:
        builder.bodies.pop()
    program.params = list(builder.params)
    program.body = builder.pop()
    program.outputs = list(builder.outputs)
    program.attrs.update(builder.attrs)
    ev.builder = None


# -- eager ----------------------------------------------------------------------------------------------------------------------
def _trace_eager(ev: Evaluator, kernel: KernelDefinition, instance: KernelInstance, program: TileProgram) -> None:
    """Twice, as TileLang does: T.const values follow from the tensors' shapes once those are declared, before the launch."""
    constants = {k: v for k, v in instance.kwargs.items() if k not in kernel.parameters}
    builder = _trace_eager_once(ev, kernel, instance, constants, is_probe=True)
    if builder.solved:
        conflicts = builder.attrs.get("size_conflicts")
        ev.problems.clear()
        builder = _trace_eager_once(ev, kernel, instance, {**builder.solved, **constants})
        if conflicts:  # now that the T.const values are numbers, all that is left to say is that an extent is another
            builder.attrs.pop("misfits", None)
            builder.attrs["size_conflicts"] = conflicts
    _take(ev, builder, program)
    _check_eager(ev, kernel, instance, builder, program)


def _trace_eager_once(ev: Evaluator, kernel: KernelDefinition, instance: KernelInstance, constants: dict[str, Any], is_probe: bool = False) -> Builder:
    function = instance.function
    builder = Builder("eager")
    builder.is_probe = is_probe
    builder.const_values.update(constants)
    kwargs = {k: v for k, v in instance.kwargs.items() if k in kernel.parameters}
    values, _ = bind_arguments(function, instance.args, kwargs)
    builder.arguments = values
    scope = Scope(function.scope, "kernel", function.source)
    scope.names.update({k: v for k, v in values.items() if not isinstance(v, HostTensor)})
    scope.names.update({k: unknown(f"parameter {k}") for k, v in values.items() if isinstance(v, HostTensor)})
    outer, ev.source = ev.source, function.source or ev.source
    ev.builder = builder
    try:
        _declare_annotated(ev, function, scope, values)
        _run_body(ev, function, scope)
    except Declared:
        pass
    finally:
        ev.source = outer
        finish(ev)
    return builder


def _declare_annotated(ev: Evaluator, function: Function, scope: Scope, values: dict[str, Any]) -> None:
    """Parameters whose annotation in the signature is a tensor type."""
    assert isinstance(function.node, ast.FunctionDef)
    for argument in (*function.node.args.args, *function.node.args.kwonlyargs):
        if argument.annotation is None:
            continue
        reporting, ev.reporting = ev.reporting, False
        annotation = evaluate_annotation(ev, argument.annotation, function.scope)
        ev.reporting = reporting
        if dtype_name(annotation) == "handle" or (isinstance(annotation, TensorType) and annotation.kind == "ptr"):
            scope.names[argument.arg] = make_parameter(ev, argument.arg, annotation, argument)
        elif isinstance(annotation, TensorType) and annotation.shape is not None:
            if isinstance(values.get(argument.arg), HostTensor):
                solve(ev, argument.arg, annotation, values[argument.arg])
            scope.names[argument.arg] = make_parameter(ev, argument.arg, annotation, argument)


def _check_given(ev: Evaluator, instance: KernelInstance, builder: Builder, program: TileProgram) -> None:
    """A call says every T.const: by its name, or by a tensor that has it for an extent."""
    if instance.origin not in ("call", "command", "directive") or not instance.is_known() or builder.attrs.get("unknown_params"):
        return
    for name, span in builder.const_spans.items():
        if name in builder.const_values:
            continue
        carriers = [p for p in program.params if isinstance(p, Buffer) and p not in builder.outputs and occurs_plainly([p], name)]
        left_out = [p.name for p in carriers if is_unknown(builder.arguments.get(p.name)) and builder.arguments[p.name].reason == f"argument {p.name}"]
        if carriers and len(left_out) == len(carriers):
            text = f"{instance.function.name} is given neither {name}= nor {' or '.join(left_out)}, so the value of T.const {name!r} is not known"
            if instance.origin == "call" and instance.span is not None:
                ev.problem("eager-missing-const", text, instance.span, ("the constant", span))
            else:
                ev.problem("eager-missing-const", text, span)
            return


def _check_eager(ev: Evaluator, kernel: KernelDefinition, instance: KernelInstance, builder: Builder, program: TileProgram) -> None:
    if not builder.launch_count and isinstance(kernel.node, ast.FunctionDef):
        inner = next((s for s in kernel.node.body if isinstance(s, ast.FunctionDef)), None)
        if inner is not None and any(isinstance(s, ast.Return) and isinstance(s.value, ast.Name) and s.value.id == inner.name for s in kernel.node.body):
            ev.problems[:] = [p for p in ev.problems if p.rule != "eager-return" and not (p.rule == "python-syntax" and p.span.line == inner.lineno)]
            ev.problem("missing-prim-func", f"{inner.name} has no @T.prim_func, so {kernel.name} is taken for an eager kernel", ev.source.name_span(inner))
            program.attrs["incomplete"] = "it has no prim_func"
            return
    if not builder.launch_count and not builder.params and not builder.const_spans:
        # it builds nothing itself: what it returns is made elsewhere, a prim_func for all that is known
        ev.problems[:] = [p for p in ev.problems if p.rule != "eager-return"]
        program.attrs["incomplete"] = "its prim_func is made elsewhere"
        return
    if instance.function.jit.get("out_idx") is not None and not is_unknown(instance.function.jit["out_idx"]):
        ev.problem("eager-out-idx", "out_idx belongs to factories with a @T.prim_func; an eager kernel returns its T.empty tensors",
                   instance.function.jit.get("out_idx_span") or kernel.name_span)
    returned = builder.returned or []
    missing = [b for b in builder.outputs if b not in returned]
    if missing and not any(p.rule == "eager-return" for p in ev.problems):
        names = ", ".join(b.name for b in missing)
        ev.problem("eager-return", f"{names} is made by T.empty but not returned; a kernel returns all of them", builder.return_span or missing[0].span or kernel.name_span)
    _check_given(ev, instance, builder, program)
    if instance.origin in ("unknown", "defaults"):
        return  # calls that are not seen may say the constants by name
    for name, span in builder.const_spans.items():
        if builder.attrs.get("unknown_params"):
            continue
        given = name in builder.const_values
        plainly = stands_in_a_shape(ev.source, kernel.node, name) if given else occurs_plainly([p for p in program.params if p not in builder.outputs], name)
        if not plainly:
            ev.problem("const-unused", f"T.const {name!r} is no dimension of a tensor parameter by itself, so its value cannot be found from the arguments", span)


# -- outputs ----------------------------------------------------------------------------------------------------------------------
def _apply_out_idx(ev: Evaluator, kernel: KernelDefinition, program: TileProgram) -> None:
    out_idx = program.attrs.get("out_idx")
    if out_idx is not None and kernel.kind != "eager" and program.outputs:
        names = " and ".join(b.name for b in program.outputs)
        ev.problem("out-idx-conflict", f"{program.name} returns {names}, made by T.empty, and out_idx names outputs as well; leave out_idx out",
                   program.attrs.get("out_idx_span") or kernel.name_span)
        return
    if out_idx is None or is_unknown(out_idx) or kernel.kind == "eager" or program.attrs.get("unknown_params"):
        return
    indices = list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    count = len(program.params)
    where = program.attrs.get("out_idx_span") or kernel.name_span
    if any(isinstance(i, (str, float)) for i in indices):
        ev.problem("out-idx-range", "out_idx holds parameter positions, which are integers", where)
        return
    if any(not isinstance(i, int) for i in indices) or not count:
        return
    wrong = [i for i in indices if not -count <= i < count]
    if wrong:
        ev.problem("out-idx-range", f"out_idx {wrong[0]} is out of range: {program.name} has {count} parameters (-{count} to {count - 1})", where)
        return
    positions = [i % count for i in indices]
    if len(set(positions)) != len(positions):
        ev.problem("out-idx-range", f"out_idx {indices} names a parameter twice", where)
        return
    program.outputs = [p for p in (program.params[i] for i in positions) if isinstance(p, Buffer)]
