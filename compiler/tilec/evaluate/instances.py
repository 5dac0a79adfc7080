"""Where the arguments of kernels come from: command line, directives, configuration, calls, autotune, defaults."""
from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ..source.span import Span
from .blocks import statements_within
from .definitions import KernelDefinition, KernelInstance, call_text, instance_text, value_text
from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal, Stop
from .functions import bind_arguments
from .problem import Problem
from .scope import Scope
from .surroundings import Surroundings
from .values import Function, HostTensor, Instance, Native, Partial, dtype_name, is_unknown, unknown

NOT_REACHED = " does not reach a kernel of this file (kernels: "
MAX_CALL_INSTANCES = 12
MAX_CONFIG_INSTANCES = 4


class InstanceError(ValueError):
    """An instance given by the user that cannot be understood."""


class Recorder:
    """Collects instances while host code runs: ``Evaluator.on_call``."""

    def __init__(self, definitions: dict[ast.AST, KernelDefinition], problems: list[Problem]):
        self.definitions = definitions
        self.problems = problems
        self.origin = "call"
        self.surroundings = Surroundings()
        self.compiled: dict[Function, KernelInstance] = {}
        self.owners: dict[ast.AST, KernelDefinition] = {}  # functions inside kernels' functions, once asked for

    def __call__(self, function: Function, args: list[Any], kwargs: dict[str, Any], span: Span | None) -> KernelInstance | None:
        instance = self._instance(function, args, kwargs, span)
        if instance is not None:
            self.surroundings.saw(instance, function.kind in ("lazy", "eager"), function.jit.get("target"))
        return instance

    def compiled_inside(self, function: Function, span: Span | None) -> KernelInstance | None:
        """A prim_func compiled by the very function that defines it: an instance of that function's kernel."""
        if not self.owners:
            for outer in self.definitions.values():
                self.owners.update({s: outer for s in statements_within(outer.node) if isinstance(s, ast.FunctionDef)})
        definition = self.definitions.get(function.node) or self.owners.get(function.node)
        if definition is None:
            return None
        if function in self.compiled:
            return self.compiled[function]
        if sum(i.function.kind == "prim_func" for i in definition.instances) >= MAX_CALL_INSTANCES:
            return None
        # The names around the prim_func may change after it is compiled.
        now = function if function.scope.parent is None else replace(function, scope=function.scope.snapshot())
        instance = KernelInstance(call_text(function.name, [], {}), now, [], {}, self.origin, span)
        self.compiled[function] = instance
        definition.instances.append(instance)
        return instance

    def keeps_to_itself(self, record: KernelInstance) -> None:
        """A call that gave no prim_func: what the function compiled is what counts."""
        definition = self.definitions[record.function.node]
        if record.function.kind == "plain" and any(i.function.kind == "prim_func" for i in definition.instances) and record in definition.instances:
            definition.instances.remove(record)

    def _instance(self, function: Function, args: list[Any], kwargs: dict[str, Any], span: Span | None) -> KernelInstance | None:
        definition = self.definitions.get(function.node)
        if definition is None:
            return None
        if definition.function is None:
            definition.function = function
        text = instance_text(definition, args, kwargs)
        for known in definition.instances:
            if known.text == text and known.origin == self.origin and known.function.scope is function.scope and _same_arguments(known.args, args):
                return known
        if self.origin == "call" and not self._fits(definition, function, args, kwargs, span):
            return None
        if self.origin == "call" and sum(i.origin == "call" and not i.failures for i in definition.instances) >= MAX_CALL_INSTANCES:
            return None
        instance = KernelInstance(text, function, [_as_it_is(a) for a in args], dict(kwargs), self.origin, span)
        definition.instances.append(instance)
        return instance

    def owns(self, function: Function) -> bool:
        """Whether calling the function makes an instance of a kernel of this file."""
        return function.node in self.definitions

    def _fits(self, definition: KernelDefinition, function: Function, args: list[Any], kwargs: dict[str, Any], span: Span | None) -> bool:
        """Whether the call binds; a lazy factory's call that does not is a fault of the caller."""
        if function.configs is not None or function.jit.get("wrapped") or definition.kind != "lazy":
            return True
        values, error = bind_arguments(function, args, kwargs)
        if error is None:
            return True
        if span is not None and not self.surroundings.failing:
            self.problems.append(Problem("call-arity", f"{error}", span, (("defined here", definition.name_span),)))
        return False

    def refuses(self, function: Function, message: str, span: Span) -> None:
        """TileLang does not take an argument of a call. Instances by command or comment are no calls: they say what to look at."""
        if self.origin != "call":
            return
        definition = self.definitions.get(function.node)
        related = (("defined here", definition.name_span),) if definition is not None else ()
        self.problems.append(Problem("jit-key-unhashable", message, span, related))

    def kernel_called(self, kernel: Any, given: int, span: Span) -> None:
        """A compiled kernel is called with ``given`` arguments."""
        from .tile.jit import kernel_call_fault

        fault = None if self.surroundings.failing else kernel_call_fault(kernel, given)
        definition = self.definitions.get(kernel.function.node)
        if fault is not None and definition is not None:
            self.problems.append(Problem("call-arity", fault, span, (("defined here", definition.name_span),)))


def _same_arguments(mine: list[Any], theirs: list[Any]) -> bool:
    """Of two calls that read alike: functions do (``<lambda>``), and objects changed since they were made."""
    return all(x is y or _is_same(x, y) for x, y in zip(mine, theirs))


def _as_it_is(argument: Any) -> Any:
    """An object with the attributes it has now: the program may change them before the kernel is traced."""
    return replace(argument, attributes=dict(argument.attributes)) if isinstance(argument, Instance) else argument


def _is_same(x: Any, y: Any) -> bool:
    if isinstance(x, Function):
        return getattr(y, "node", None) is x.node
    if isinstance(x, Instance) and isinstance(y, Instance):
        return x.attributes.keys() == y.attributes.keys() and all(value_text(v) == value_text(y.attributes[k]) for k, v in x.attributes.items())
    return True


def tensor_native() -> Native:
    """``tensor((M, N), "float16")`` of instance expressions."""

    def make(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        shape = args[0] if args else kwargs.get("shape")
        dtype = args[1] if len(args) > 1 else kwargs.get("dtype", "float32")
        if isinstance(shape, int):
            shape = (shape,)
        if not isinstance(shape, (tuple, list)):
            return unknown("tensor")
        return HostTensor(tuple(shape), dtype_name(dtype) or "unknown")

    return Native("tensor", make)


def evaluate_expression(ev: Evaluator, scope: Scope, text: str) -> Any:
    """Evaluate an instance expression in the file's namespace. Raises InstanceError if it is no expression."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise InstanceError(f"{text!r} is not a call such as 'matmul(1024, 1024, 1024, block_M=128)': {error.msg}") from None
    inner = Scope(scope, "function")
    inner.names["tensor"] = tensor_native()
    return ev.eval(tree.body, inner)


def from_expression(ev: Evaluator, scope: Scope, recorder: Recorder, text: str, origin: str) -> list[KernelInstance]:
    """The instances that calling ``text`` makes. Raises InstanceError if it reaches no kernel of the file."""
    before = {id(i) for d in recorder.definitions.values() for i in d.instances}
    recorder.origin = origin
    try:
        value = evaluate_expression(ev, scope, text)
        if isinstance(value, Function) and value.node in recorder.definitions and not _made(recorder, before):
            recorder(value, [], {}, None)
    finally:
        recorder.origin = "call"
    made = _made(recorder, before)
    if not made:
        known = ", ".join(sorted({d.qualname for d in recorder.definitions.values()})) or "none"
        raise InstanceError(f"{text!r}{NOT_REACHED}{known})")
    for instance in made:
        instance.text = text.strip() if len(made) == 1 else instance.text
    return made


def _made(recorder: Recorder, before: set[int]) -> list[KernelInstance]:
    return [i for d in recorder.definitions.values() for i in d.instances if id(i) not in before]


def directive_call(definition: KernelDefinition, text: str) -> str:
    """``M=4096 dtype="float16"`` as a call of the kernel's outermost function."""
    return f"{_entry(definition)}({', '.join(split_arguments(text))})"


def _entry(definition: KernelDefinition) -> str:
    top = definition.outermost
    if isinstance(top, ast.ClassDef):
        return f"{top.name}().{definition.name}"
    return top.name if isinstance(top, ast.FunctionDef) else definition.name


def split_arguments(text: str) -> list[str]:
    """Split at spaces and commas that stand outside brackets and quotes."""
    parts: list[str] = []
    depth, quote, current = 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if character in " ,\t" and depth == 0 and not quote:
            if current:
                parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current else parts


# -- without an explicit choice ------------------------------------------------------------------------------------------------
def complete(ev: Evaluator, definition: KernelDefinition) -> None:
    """Choose among the instances found, or make one from autotune configurations or defaults."""
    for origins in (("command",), ("directive", "config")):
        chosen = [i for i in definition.instances if i.origin in origins]
        if chosen:
            definition.instances = chosen
            _add_configs(ev, definition)
            return
    calls = definition.instances
    known = [i for i in calls if i.is_known()]
    definition.instances = known or calls[:1]
    function = definition.function
    if function is None:
        return
    if definition.instances:
        _add_configs(ev, definition)
        return
    for config in _configs(ev, function, [], {}):
        definition.instances.append(KernelInstance(call_text(definition.name, [], config), function, [], dict(config), "autotune"))
    if not definition.instances:
        definition.instances.append(_defaults(definition, function))


def _configs(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
    """The first configurations of an autotuned kernel; a function that makes them gets the kernel's arguments."""
    configs = function.configs
    if isinstance(configs, (Function, Partial)):
        try:
            packed = isinstance(configs, Function) and [a.arg for a in configs.node.args.args] == ["args", "kwargs"]
            configs = ev.call(configs, [list(args), dict(kwargs)], {}) if packed else ev.call(configs, list(args), dict(kwargs))
        except (Raised, ReturnSignal, BreakSignal, ContinueSignal, Stop, RecursionError):
            return []
    if not isinstance(configs, (list, tuple)):
        return []
    known = [{k: v for k, v in c.items() if k != "pass_configs"} for c in configs if isinstance(c, dict)]
    return known[:MAX_CONFIG_INSTANCES]


def _add_configs(ev: Evaluator, definition: KernelDefinition) -> None:
    """A call of an autotuned kernel leaves the tuned parameters open: the configurations fill them."""
    filled: list[KernelInstance] = []
    for instance in definition.instances:
        options = _configs(ev, instance.function, instance.args, instance.kwargs)
        if not options:
            filled.append(instance if instance.function.configs is None else _left_open(definition, instance))
            continue
        given = {*definition.parameters[:len(instance.args)], *instance.kwargs}
        open_ = [{k: v for k, v in config.items() if k not in given} for config in options]
        if not any(open_):
            filled.append(instance)
            continue
        filled += [_configured(definition, instance, config) for config in open_]
    definition.instances = list({(i.text, id(i.args)): i for i in filled}.values())


def _configured(definition: KernelDefinition, instance: KernelInstance, config: dict[str, Any]) -> KernelInstance:
    kwargs = {**instance.kwargs, **config}
    if instance.origin == "call":
        text = instance_text(definition, instance.args, kwargs)
        return KernelInstance(text, instance.function, instance.args, kwargs, "autotune", instance.span)
    return replace(instance, text=_more_arguments(instance.text, config), kwargs=kwargs)


def _more_arguments(call: str, more: dict[str, Any]) -> str:
    """The user's own words, with arguments added: ``matmul(N)`` becomes ``matmul(N, block_M=64)``."""
    words = ", ".join(f"{k}={value_text(v)}" for k, v in more.items())
    if not call.endswith(")"):
        return f"{call}({words})"
    start = call[:-1].rstrip().removesuffix(",")
    return f"{start}{'' if start.endswith('(') else ', '}{words})"


def _left_open(definition: KernelDefinition, instance: KernelInstance) -> KernelInstance:
    """An instance whose parameters that are None unless given are not known: a tuner gives them."""
    values, _ = bind_arguments(instance.function, instance.args, instance.kwargs)
    given = set(definition.parameters[:len(instance.args)]) | set(instance.kwargs)
    unset = {p: unknown(f"argument {p}") for p in definition.parameters if p not in given and p in values and values[p] is None}
    return replace(instance, kwargs={**instance.kwargs, **unset})


def _defaults(definition: KernelDefinition, function: Function) -> KernelInstance:
    """Called by nobody that is seen. A parameter that is None by default is given by whoever does call it."""
    values, _ = bind_arguments(function, [], {})
    unset = {p: unknown(f"argument {p}") for p in definition.parameters if p in values and values[p] is None}
    values = {**values, **unset}
    origin = "unknown" if any(is_unknown(values.get(p)) for p in definition.parameters) else "defaults"
    return KernelInstance(call_text(definition.name, [], {}), function, [], unset, origin)


