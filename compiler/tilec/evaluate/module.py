"""Analysis of a file: its kernels with their instances, its uses of the API, problems outside kernels."""
from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.file import SourceFile
from ..source.mentions import mentions_language
from ..source.nodes import walk
from .api_uses import find_api_uses
from .borrowed import borrow
from .definitions import KernelDefinition, KernelInstance, find_definitions
from .entry_points import run_entry_points
from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal, Stop
from .foreign import is_foreign
from .instances import InstanceError, Recorder, complete, directive_call, from_expression
from .problem import ApiUse, Problem
from .relevance import Slicer
from .scope import Scope
from .sizes import with_sizes
from .surroundings import mark_refused
from .values import Api, Class, Function
from .workspace import Workspace, run_tolerantly


@dataclass(eq=False)
class ModuleAnalysis:
    source: SourceFile
    kernels: list[KernelDefinition] = field(default_factory=list)
    api_uses: list[ApiUse] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    scope: Scope | None = None
    workspace: Workspace | None = None
    instance_errors: list[str] = field(default_factory=list)
    directive_errors: list[str] = field(default_factory=list)
    api_calls: list[Any] = field(default_factory=list)  # of host code, with the forms of their arguments

    def kernel(self, name: str) -> KernelDefinition | None:
        """A kernel by name or qualified name."""
        return next((k for k in self.kernels if name in (k.name, k.qualname)), None)


def analyse(source: SourceFile, *, instances: tuple[str, ...] = (), config_instances: tuple[str, ...] = (), roots: tuple[str, ...] = (),
            read: Any = None) -> ModuleAnalysis:
    """Find a file's kernels and their instances. Never executes the file; never raises for what it contains.

    ``instances`` (from the command line) and ``config_instances`` are calls as text; those that reach no kernel of the
    file are named in ``instance_errors``, comments that do in ``directive_errors``. ``read``: how imported files are read, see :class:`Workspace`.
    """
    workspace = Workspace((*roots, *_package_roots(source.path)), read)
    analysis = ModuleAnalysis(source, workspace=workspace)
    if not mentions_language(source.text):
        return analysis
    ev = Evaluator(source, workspace)
    scope = Scope(None, "module", source)
    scope.names["__file__"] = source.path
    analysis.scope = scope
    definitions: dict[ast.AST, KernelDefinition] = {d.node: d for d in find_definitions(source, set())}
    recorder = Recorder(definitions, analysis.problems)
    recorder.surroundings = ev.surroundings
    ev.surroundings.read(source.text)
    ev.on_call = recorder
    ev.slicer = Slicer(source, definitions.values(), _words((*instances, *config_instances, *(d.text for d in source.directives))))
    try:
        scope.plan = ev.slicer.module_plan()
        run_tolerantly(ev, source.tree.body, scope)
        _find_eager(source, scope, definitions)
        ev.slicer.learn(definitions.values())
        explicit = _explicit_instances(ev, analysis, recorder, instances, config_instances)
        if not explicit:
            run_entry_points(ev, source, scope, definitions)
    except Stop:
        pass
    except RecursionError:
        pass
    found = [d for d in definitions.values() if "tvm.script" not in source.text or not is_foreign(d, scope)]
    analysis.kernels = sorted(found, key=lambda d: (d.node.lineno, d.node.col_offset))
    _reach_functions(source, workspace, scope, analysis, recorder)
    for definition in analysis.kernels:
        complete(ev, definition)
    for definition in analysis.kernels:
        borrow(definition, analysis.kernels, scope)
    mark_refused(source.text, analysis.kernels)
    _find_stray_launches(ev, source, scope, analysis)
    analysis.api_uses = find_api_uses(source, scope)
    analysis.api_calls = list(ev.api_calls.values())
    return analysis


def _words(texts: tuple[str, ...]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}


def _package_roots(path: str) -> tuple[str, ...]:
    """The folders above the file's packages and the project's root: where absolute imports start."""
    folder = os.path.dirname(os.path.realpath(path)) if path else ""
    roots: list[str] = []
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        roots.append(folder)
    while os.path.dirname(folder) != folder:
        if any(os.path.exists(os.path.join(folder, marker)) for marker in ("pyproject.toml", "setup.py", ".git")):
            roots += [folder, os.path.join(folder, "src")]
            break
        folder = os.path.dirname(folder)
    return tuple(dict.fromkeys(roots))


def _find_eager(source: SourceFile, scope: Scope, definitions: dict[ast.AST, KernelDefinition]) -> None:
    """Functions that turned out to be jitted (through aliases or the user's own decorators)."""
    eager: set[ast.AST] = {f.node for f in _functions(scope) if f.kind == "eager" and f.source is source}
    for found in find_definitions(source, eager):
        definitions.setdefault(found.node, found)
    for function in _functions(scope):
        if function.node in definitions:
            definitions[function.node].function = function


def _functions(scope: Scope) -> list[Function]:
    found: list[Function] = []
    for value in scope.names.values():
        if isinstance(value, Function):
            found.append(value)
        elif isinstance(value, Class):
            found += [m for m in value.namespace.values() if isinstance(m, Function)]
    return found


_STRAY = {
    "kernel-usage": "T.Kernel opens a kernel launch; it belongs inside a @T.prim_func or an eager @tilelang.jit kernel",
    "alloc-outside-kernel": "T.{name} is called where no kernel is being built; buffers are allocated inside a kernel",
    "macro-outside": "{name} is a macro; macros are called inside kernels",
    "const-lazy": "T.const is called where no eager kernel is being traced; a size of the module is a number, one known at run time T.dynamic",
}


def _find_stray_launches(ev: Evaluator, source: SourceFile, scope: Scope, analysis: ModuleAnalysis) -> None:
    """T.Kernel, T.const, T.alloc_* and macros in statements of the module and its classes, where no kernel is being built."""
    for statement in _run_at_import(source.tree.body):
        if isinstance(statement, ast.With):
            values = [item.context_expr for item in statement.items]
        elif isinstance(statement, (ast.Assign, ast.Expr)):
            values = [statement.value]
        else:
            continue
        for call in values:
            name = _called_name(call)
            _report_stray(ev, call, name, scope, analysis)
            for inner in _made_inside(ev, call, scope):
                _report_stray(ev, inner, _called_name(inner), scope, analysis)


def _report_stray(ev: Evaluator, call: ast.expr, name: str, scope: Scope, analysis: ModuleAnalysis) -> None:
    rule = _stray(ev, call, name, scope)
    if rule is not None:
        found = Problem(rule, _STRAY[rule].format(name=name), ev.source.span(call))
        if all(p.rule != rule or p.span != found.span for p in analysis.problems):
            analysis.problems.append(found)


def _made_inside(ev: Evaluator, call: ast.expr, scope: Scope) -> Iterator[ast.expr]:
    """What the first lines of a plain function of this module, or of a class's __init__, make as it is called at import."""
    called = scope.names.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
    if isinstance(called, Class):
        called = called.namespace.get("__init__")
    if not isinstance(called, Function) or called.kind != "plain" or called.source is not ev.source:
        return
    if not isinstance(called.node, ast.FunctionDef) or called.node.decorator_list:
        return
    made_here = _first_lines(called.node)
    if made_here and _is_bound_once(ev.source, call.func.id):  # type: ignore[attr-defined]
        yield from made_here


def _first_lines(function: ast.FunctionDef) -> list[ast.expr]:
    """What the statements call that run whenever the function does, where the function called is none of its own arguments."""
    own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    found: list[ast.expr] = []
    for statement in function.body:
        if isinstance(statement, ast.With):
            found += [item.context_expr for item in statement.items]
        elif isinstance(statement, (ast.Assign, ast.Expr)):
            found.append(statement.value)
        else:
            break  # a branch or a raise may end the call before the rest
    return [v for v in found if isinstance(v, ast.Call) and not any(isinstance(n, ast.Name) and n.id in own for n in ast.walk(v.func))]


def _run_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _run_at_import(statement.body)
        else:
            yield statement


def _stray(ev: Evaluator, call: ast.expr, name: str, scope: Scope) -> str | None:
    """The rule that a call outside of kernels breaks."""
    if not isinstance(call, ast.Call):
        return None
    if (name == "Kernel" or name.startswith("alloc_")) and ev.eval(call.func, scope) == Api("tilelang.language", name):
        return "kernel-usage" if name == "Kernel" else "alloc-outside-kernel"
    if name == "const" and ev.eval(call.func, scope) == Api("tilelang.language", name):
        return "const-lazy"
    called = scope.names.get(name) if isinstance(call.func, ast.Name) else None
    is_macro = isinstance(called, Function) and called.kind == "macro" and called.node.lineno < call.lineno
    return "macro-outside" if is_macro and _is_bound_once(ev.source, name) else None


def _is_bound_once(source: SourceFile, name: str) -> bool:
    """Whether a name of the module has one meaning; at its end it may stand for something else than at a call before."""
    bound = [n for n in walk(source.tree) if name in (getattr(n, "name", None), getattr(n, "asname", None)) or _stores(n, name)]
    return len(bound) == 1


def _stores(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def _called_name(call: ast.expr) -> str:
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


# -- instances ----------------------------------------------------------------------------------------------------------------
def _explicit_instances(ev: Evaluator, analysis: ModuleAnalysis, recorder: Recorder, command: tuple[str, ...], config: tuple[str, ...]) -> bool:
    """Instances the user names. True if every kernel of the file has one, so that looking at calls is not needed."""
    scope = analysis.scope
    assert scope is not None
    for text in command:
        _from_text(ev, analysis, recorder, scope, text, "command")
    for text in config:
        _from_text(ev, analysis, recorder, scope, text, "config")
    for directive in analysis.source.directives:
        if directive.kind == "instance":
            target = _below(recorder, directive.line)
            if target is not None:
                _from_text(ev, analysis, recorder, scope, directive_call(target, directive.text), "directive")
    return all(any(i.origin in ("command", "directive", "config") for i in d.instances) for d in recorder.definitions.values())


def _from_text(ev: Evaluator, analysis: ModuleAnalysis, recorder: Recorder, scope: Scope, text: str, origin: str) -> None:
    try:
        from_expression(ev, scope, recorder, text, origin)
    except InstanceError as error:
        wrong = str(error)
    except (Raised, ReturnSignal, BreakSignal, ContinueSignal):
        wrong = f"{text!r} raises while the kernel is made"
    else:
        return
    if origin != "config":  # which speaks of other files too
        (analysis.directive_errors if origin == "directive" else analysis.instance_errors).append(wrong)


def _below(recorder: Recorder, line: int) -> KernelDefinition | None:
    """The kernel a directive stands above: the first whose outermost function starts after it."""
    def start(d: KernelDefinition) -> int:
        top = d.outermost
        decorators = getattr(top, "decorator_list", [])
        first = min([x.lineno for x in decorators] + [top.lineno])
        return first if first > line else d.first_line

    after = [d for d in recorder.definitions.values() if start(d) > line]
    return min(after, key=start, default=None)


class _Finder:
    """Collects a kernel's function while the code around it runs: ``Evaluator.on_call``."""

    def __init__(self, definition: KernelDefinition, found: list[Function]):
        self.definition = definition
        self.found = found

    def owns(self, function: Function) -> bool:
        return function.node is self.definition.node

    def __call__(self, function: Function, args: Any, kwargs: Any, span: Any) -> None:
        if self.owns(function):
            self.found.append(function)

    def compiled_inside(self, function: Function, span: Any) -> None:
        """Only kernels' functions are looked for here."""

    def keeps_to_itself(self, record: Any) -> None:
        """Likewise."""

    def kernel_called(self, kernel: Any, given: int, span: Any) -> None:
        """Only kernels' functions are looked for here."""


def _reach_functions(source: SourceFile, workspace: Workspace, scope: Scope, analysis: ModuleAnalysis, recorder: Recorder) -> None:
    """Kernels inside functions nobody calls: call the enclosing function with its defaults to get at them."""
    for definition in analysis.kernels:
        if definition.function is not None:
            continue
        top = definition.outermost
        function = scope.names.get(getattr(top, "name", ""))
        if not isinstance(function, Function):
            continue
        ev = Evaluator(source, workspace, max_steps=50_000, max_seconds=1.0)
        found: list[Function] = []
        ev.on_call = _Finder(definition, found)
        args, kwargs = with_sizes(function, [], {}) or ([], {})
        try:
            result = ev.call_function(function, args, kwargs)
        except (Stop, Raised, ReturnSignal, BreakSignal, ContinueSignal, RecursionError):
            continue
        if isinstance(result, Function) and result.node is definition.node:
            found.append(result)
        if found:
            definition.function = found[0]


__all__ = ["KernelInstance", "ModuleAnalysis", "analyse"]
