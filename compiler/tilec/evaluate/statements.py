"""Execution of statements: one small function per kind of syntax node."""
from __future__ import annotations

import ast
from typing import Any

from ..ir import dtypes
from ..ir.buffer import VAR, Buffer, Region
from ..ir.expr import Expr, Load, Var
from ..ir.expr import walk as walk_expr
from ..ir.stmt import Let
from .evaluator import BreakSignal, ContinueSignal, Evaluator, Raised, ReturnSignal
from .expressions import BINARY, binary_value, evaluate, evaluate_index, scalar_operand, truth
from .scope import Scope
from .values import Class, Function, Instance, LaunchValue, LoopValue, Reference, derived, is_device, is_hardware, is_unknown, same, unknown

MAX_HOST_ITERATIONS = 300
MAX_LOOP_STEPS = 20_000  # of one loop of the host: those of reference implementations lead to no kernel


def execute(ev: Evaluator, body: list[ast.stmt], scope: Scope) -> None:
    plan = scope.plan
    for position, node in enumerate(body):
        if plan is not None and plan.skips(node, scope):
            continue
        ev.step()
        handler = _HANDLERS.get(type(node))
        if handler is None:
            continue
        if in_kernel(ev, scope):
            _warn_after_jump(ev, body, position)
        handler(ev, node, scope)


def in_kernel(ev: Evaluator, scope: Scope) -> bool:
    """Whether statements of this scope are those of a kernel or macro being traced."""
    return ev.builder is not None and scope.kind == "kernel"


def _warn_after_jump(ev: Evaluator, body: list[ast.stmt], position: int) -> None:
    if isinstance(body[position], (ast.Break, ast.Continue, ast.Return)) and position + 1 < len(body):
        word = type(body[position]).__name__.lower()
        ev.problem("statement-after-break", f"this statement follows {word} and never runs", body[position + 1])


# -- names ------------------------------------------------------------------------------------------------------------
def assign_target(ev: Evaluator, target: ast.expr, value: Any, scope: Scope, bind: bool = True) -> None:
    """Give a target its value; ``bind``: with the meaning kernels give to assignment (let, store to a variable)."""
    if isinstance(target, ast.Name):
        if bind and in_kernel(ev, scope):
            value = binding.bind_name(ev, target, value, scope)
        scope.assign(target.id, value)
        if ev.trail is not None:
            ev.trail.saw(target, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(ev, target, value, scope, bind)
    elif isinstance(target, ast.Subscript):
        _store_item(ev, target, value, scope)
    elif isinstance(target, ast.Attribute):
        _store_attribute(ev, target, value, scope)
    elif isinstance(target, ast.Starred):
        assign_target(ev, target.value, value, scope, bind)


def _unpack(ev: Evaluator, target: Any, value: Any, scope: Scope, bind: bool) -> None:
    names = target.elts
    if isinstance(value, LaunchValue):
        value = launch.enter_launch(ev, value)
    if isinstance(value, Instance):
        from .classes import as_tuple

        value = as_tuple(value)
    if isinstance(value, (list, tuple, range, str)) and not any(isinstance(n, ast.Starred) for n in names):
        if len(value) == len(names):
            items = list(value)
            if ev.builder is not None and any(_stores(one, scope) for one in names):
                items = [_held(ev, item, target) for item in items]  # all are read before the first is stored: a, b = b, a
            for one, item in zip(names, items):
                assign_target(ev, one, item, scope, bind)
            return
    elif isinstance(value, (list, tuple)) and len(value) >= len(names) - 1:
        _unpack_starred(ev, names, list(value), scope, bind)
        return
    elif isinstance(value, (Buffer, Region)) or is_device(value):
        ev.problem("python-iterate-device", "a device value cannot be unpacked into several names", target)
    for one in names:
        assign_target(ev, one, derived("unpacking", value), scope, bind)


def _stores(target: ast.expr, scope: Scope) -> bool:
    """Whether an assignment to a target writes device memory."""
    if isinstance(target, ast.Subscript):
        return True
    found = scope.lookup(target.id) if isinstance(target, ast.Name) else None
    return isinstance(found, Reference) or isinstance(found, Buffer) and found.scope == VAR


def _held(ev: Evaluator, value: Any, where: ast.AST) -> Any:
    """A value read from device memory, under a name of its own."""
    scalar = elements.as_scalar(value)
    if ev.builder is None or not isinstance(scalar, Expr) or scalar.dtype == dtypes.UNKNOWN or not any(isinstance(x, Load) for x in walk_expr(scalar)):
        return value
    name = Var(scalar.dtype, ev.span(where), ev.builder.unique("held"), "let")
    ev.builder.emit(Let(ev.span(where), name, scalar))
    return name


def _unpack_starred(ev: Evaluator, names: list[ast.expr], items: list[Any], scope: Scope, bind: bool) -> None:
    star = next(i for i, n in enumerate(names) if isinstance(n, ast.Starred))
    after = len(names) - star - 1
    for one, item in zip(names[:star], items):
        assign_target(ev, one, item, scope, bind)
    assign_target(ev, names[star], items[star:len(items) - after], scope, bind)
    for one, item in zip(names[star + 1:], items[len(items) - after:]):
        assign_target(ev, one, item, scope, bind)


def _store_item(ev: Evaluator, target: ast.Subscript, value: Any, scope: Scope) -> None:
    base = evaluate(ev, target.value, scope)
    index = evaluate_index(ev, target.slice, scope)
    if isinstance(base, (Buffer, Region)):
        plain_code.refuse(ev, "stores to elements", target)
        elements.store_element(ev, base, index, value, target)
    elif isinstance(base, (dict, list)) and not is_unknown(index):
        try:
            base[index] = value
        except (TypeError, IndexError, KeyError, ValueError):
            return


def _store_attribute(ev: Evaluator, target: ast.Attribute, value: Any, scope: Scope) -> None:
    base = evaluate(ev, target.value, scope)
    if isinstance(base, Instance):
        base.attributes[target.attr] = value
    elif isinstance(base, Class):
        base.namespace[target.attr] = value


def _assign(ev: Evaluator, node: ast.Assign, scope: Scope) -> None:
    value = evaluate(ev, node.value, scope)
    if in_kernel(ev, scope):
        refused.check_targets(ev, node.targets)
    if value is None and in_kernel(ev, scope):
        value = no_value.assigned(ev, node, scope)
    if isinstance(value, (int, float)) and isinstance(node.value, ast.BinOp) and in_kernel(ev, scope):
        rebinding.check_step(ev, node, value, scope)
    if len(node.targets) > 1 and in_kernel(ev, scope) and any(_stores(one, scope) for one in node.targets):
        value = _held(ev, value, node.value)  # read once: x = y = x + 1
    for target in node.targets:
        assign_target(ev, target, value, scope)


def _annassign(ev: Evaluator, node: ast.AnnAssign, scope: Scope) -> None:
    if in_kernel(ev, scope) and isinstance(node.target, ast.Name):
        annotation = evaluate(ev, node.annotation, scope)
        if node.value is None:
            signature.annotate_name(ev, node, annotation, scope)
            return
    if node.value is not None:
        assign_target(ev, node.target, evaluate(ev, node.value, scope), scope)
    elif scope.kind == "class" and isinstance(node.target, ast.Name):
        scope.names.setdefault("__annotated__", []).append(node.target.id)


def _augassign(ev: Evaluator, node: ast.AugAssign, scope: Scope) -> None:
    if isinstance(node.target, ast.Subscript):
        _augassign_item(ev, node, scope)
        return
    load = _as_load(node.target)
    old = evaluate(ev, load, scope)
    if isinstance(old, Buffer) and old.scope != "local.var":
        if ev.builder is not None:
            ev.problem("buffer-augassign", f"{old.name} is a whole buffer; augmented assignment needs an element, such as "
                       f"{old.name}[i] {_symbol(node.op)}= ...", node)
        return
    if isinstance(old, list) and isinstance(node.op, ast.Add):
        more = evaluate(ev, node.value, scope)
        if isinstance(more, (list, tuple)):
            old.extend(more)
            return
    value = binary_value(ev, type(node.op), old, evaluate(ev, node.value, scope), node)
    if isinstance(value, (int, float)) and in_kernel(ev, scope):
        rebinding.check_step(ev, node, value, scope)
    assign_target(ev, node.target, value, scope)


def _augassign_item(ev: Evaluator, node: ast.AugAssign, scope: Scope) -> None:
    target = node.target
    assert isinstance(target, ast.Subscript)
    base = evaluate(ev, target.value, scope)
    index = evaluate_index(ev, target.slice, scope)
    old = subscripts.get_item(ev, base, index, target)
    value = binary_value(ev, type(node.op), old, evaluate(ev, node.value, scope), node)
    if isinstance(base, (Buffer, Region)):
        plain_code.refuse(ev, "stores to elements", target)
        elements.store_element(ev, base, index, value, target, statement=node)
    elif isinstance(base, (dict, list)) and not is_unknown(index):
        try:
            base[index] = value
        except (TypeError, IndexError, KeyError, ValueError):
            return


def _symbol(op: ast.operator) -> str:
    return {"add": "+", "sub": "-", "mul": "*", "div": "/"}.get(BINARY[type(op)][0], "@")


def _as_load(target: Any) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)


def _delete(ev: Evaluator, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            scope.delete(target.id)


def _global(ev: Evaluator, node: ast.Global, scope: Scope) -> None:
    scope.global_names.update(node.names)


def _nonlocal(ev: Evaluator, node: ast.Nonlocal, scope: Scope) -> None:
    scope.nonlocal_names.update(node.names)


# -- expressions, jumps --------------------------------------------------------------------------------------------------
def _expr(ev: Evaluator, node: ast.Expr, scope: Scope) -> None:
    value = evaluate(ev, node.value, scope)
    if in_kernel(ev, scope):
        binding.evaluate_statement(ev, value, node)
    elif ev.plain is not None and ev.builder is not None and isinstance(node.value, ast.Call):
        no_value.check_statement(ev, node, scope)


def _return(ev: Evaluator, node: ast.Return, scope: Scope) -> None:
    value = None if node.value is None else evaluate(ev, node.value, scope)
    if in_kernel(ev, scope):
        value = binding.check_return(ev, value, node)
    raise ReturnSignal(value)


def _break(ev: Evaluator, node: ast.Break, scope: Scope) -> None:
    _jump(ev, node, scope, "break", BreakSignal)


def _continue(ev: Evaluator, node: ast.Continue, scope: Scope) -> None:
    _jump(ev, node, scope, "continue", ContinueSignal)


def _jump(ev: Evaluator, node: ast.stmt, scope: Scope, kind: str, signal: type[Exception]) -> None:
    if in_kernel(ev, scope):
        assert ev.builder is not None
        frame = ev.builder.innermost_loop()
        if frame == "device":
            ev.builder.jump(kind, ev.span(node))
            return
        if frame == "host" and ev.builder.inside_device_branch():
            ev.problem("python-loop-control", f"{kind} leaves a loop that runs while the kernel is built, but it stands under a condition "
                       "known only on the device", node)
            return
    raise signal


def _raise(ev: Evaluator, node: ast.Raise, scope: Scope) -> None:
    kind, message = "Exception", ""
    if isinstance(node.exc, ast.Call):
        kind = ast.unparse(node.exc.func)
        if node.exc.args:
            text = evaluate(ev, node.exc.args[0], scope)
            message = text if isinstance(text, str) else ""
    elif node.exc is not None:
        kind = ast.unparse(node.exc)
    raise Raised(kind, message, ev.span(node))


def _assert(ev: Evaluator, node: ast.Assert, scope: Scope) -> None:
    value = evaluate(ev, node.test, scope)
    if truth(ev, value) is False:
        message = evaluate(ev, node.msg, scope) if node.msg is not None else ""
        raise Raised("AssertionError", message if isinstance(message, str) else "", ev.span(node))


# -- branches ---------------------------------------------------------------------------------------------------------
def _if(ev: Evaluator, node: ast.If, scope: Scope) -> None:
    cond = scalar_operand(evaluate(ev, node.test, scope))
    plain_code.refuse_condition(ev, cond, node.test)
    known = truth(ev, cond)
    if known is not None:
        execute(ev, node.body if known else node.orelse, scope)
    elif in_kernel(ev, scope) and is_hardware(cond):
        execute(ev, node.orelse if isinstance(node.body[-1], (ast.Raise, ast.Return)) else node.body, scope)
    elif in_kernel(ev, scope):
        branches.device_if(ev, node, cond, scope)
    else:
        run_both(ev, [node.body, node.orelse], scope, is_hardware(cond))


def run_both(ev: Evaluator, bodies: list[list[ast.stmt]], scope: Scope, free: bool = False) -> None:
    """Run alternatives of which it is not known which happens; names that end up different are unknown.

    ``free``: the choice depends on the machine alone, so that the first alternative that goes on is as good as any.
    """
    before = dict(scope.names)
    ends: list[dict[str, Any]] = []
    leaving: Exception | None = None
    for body in bodies:
        scope.names = dict(before)
        try:
            execute(ev, body, scope)
            ends.append(scope.names)
        except ReturnSignal as signal:
            if ev.returns:
                ev.returns[-1].append((signal.value, free))
            leaving = signal
        except (BreakSignal, ContinueSignal) as signal:
            leaving = signal
        except Raised as signal:
            leaving = leaving or signal
    if not ends:
        scope.names = dict(before)
        if isinstance(leaving, ReturnSignal) and ev.returns:
            ev.returns[-1].pop()
        assert leaving is not None
        raise leaving
    scope.names = ends[0] if free else _join(ends)


def _join(ends: list[dict[str, Any]]) -> dict[str, Any]:
    joined = dict(ends[0])
    differing: set[str] = set()
    for end in ends[1:]:
        for name, value in end.items():
            # A name that only one branch binds keeps its value: where it is used, that branch was meant.
            first = joined.setdefault(name, value)
            if first is not value and not same(first, value):
                differing.add(name)
    for name in differing:
        joined[name] = unknown(f"{name} depends on a condition")
    return joined


# -- loops --------------------------------------------------------------------------------------------------------------
def _for(ev: Evaluator, node: ast.For, scope: Scope) -> None:
    iterable = evaluate(ev, node.iter, scope)
    if in_kernel(ev, scope):
        refused.check_targets(ev, [node.target])
        refused.check_else(ev, node, loops.head_span(ev, node))
        if isinstance(iterable, LoopValue):
            loops.device_for(ev, node, iterable, scope)
            return
    elif isinstance(iterable, LoopValue):
        plain_code.refuse(ev, "loops of the device", node.iter)
    items = loops.iterate_host(ev, iterable, node.iter)
    if items is None:
        _unknown_loop(ev, node, scope)
        return
    _host_for(ev, node, items, scope)


def _host_for(ev: Evaluator, node: ast.For, items: Any, scope: Scope) -> None:
    before, begun = dict(scope.names), ev.progress()
    if ev.slicer is not None and ev.builder is None and len(items) > 2 and ev.slicer.repeats(node):
        items = items[:2]
    for count, item in enumerate(items):
        if count >= MAX_HOST_ITERATIONS or ev.leads_nowhere(begun, MAX_LOOP_STEPS):
            _forget_changes(scope, before)
            return
        assign_target(ev, node.target, item, scope)
        if not _one_iteration(ev, node.body, scope):
            return
    execute(ev, node.orelse, scope)


def _one_iteration(ev: Evaluator, body: list[ast.stmt], scope: Scope) -> bool:
    """False when the loop is left by ``break``."""
    builder = ev.builder if in_kernel(ev, scope) else None
    if builder is not None:
        builder.enter_host_loop()
    try:
        execute(ev, body, scope)
    except BreakSignal:
        return False
    except ContinueSignal:
        return True
    finally:
        if builder is not None:
            builder.leave_host_loop()
    return True


def _unknown_loop(ev: Evaluator, node: Any, scope: Scope) -> None:
    """A loop of unknown length: its body runs once with unknown values, and what it assigns is unknown after it."""
    before = dict(scope.names)
    if isinstance(node, ast.For):
        assign_target(ev, node.target, unknown("loop"), scope, bind=False)
    if in_kernel(ev, scope):
        loops.unknown_device_loop(ev, node, scope)
    else:
        try:
            _one_iteration(ev, node.body, scope)
        except ReturnSignal as signal:
            if ev.returns:
                ev.returns[-1].append((signal.value, False))
        except Raised:
            pass
    _forget_changes(scope, before)


def _forget_changes(scope: Scope, before: dict[str, Any]) -> None:
    """After a loop of which not every iteration was run: what it changes is not known."""
    for name, value in scope.names.items():
        if name in before and not same(before[name], value) and isinstance(value, (int, float, str, bool, tuple, Expr)):
            scope.names[name] = unknown(f"{name} is changed in a loop")


def _while(ev: Evaluator, node: ast.While, scope: Scope) -> None:
    if in_kernel(ev, scope):
        loops.device_while(ev, node, scope)
        return
    before, begun = dict(scope.names), ev.progress()
    for _ in range(MAX_HOST_ITERATIONS):
        if ev.leads_nowhere(begun, MAX_LOOP_STEPS):
            break
        cond = scalar_operand(evaluate(ev, node.test, scope))
        plain_code.refuse_condition(ev, cond, node.test)
        known = truth(ev, cond)
        if known is None:
            _unknown_loop(ev, node, scope)
            return
        if not known:
            execute(ev, node.orelse, scope)
            return
        if not _one_iteration(ev, node.body, scope):
            return
    _forget_changes(scope, before)


# -- blocks -------------------------------------------------------------------------------------------------------------
def _with(ev: Evaluator, node: ast.With, scope: Scope) -> None:
    _with_items(ev, node, node.items, scope)


def _with_items(ev: Evaluator, node: ast.With, items: list[ast.withitem], scope: Scope) -> None:
    if not items:
        execute(ev, node.body, scope)
        return
    first = items[0]
    value = evaluate(ev, first.context_expr, scope)
    if ev.builder is not None:
        if launch.with_device(ev, node, first, value, scope, lambda: _with_items(ev, node, items[1:], scope)):
            return
    if first.optional_vars is not None:
        assign_target(ev, first.optional_vars, unknown("context manager"), scope)
    with ev.surroundings.entered(first.context_expr, value) as fails:
        try:
            _with_items(ev, node, items[1:], scope)
        except Raised:
            if not fails:
                raise


def _try(ev: Evaluator, node: Any, scope: Scope) -> None:
    try:
        with ev.surroundings.refusing(node):
            execute(ev, node.body, scope)
        execute(ev, node.orelse, scope)
    except Raised:
        if not node.handlers:
            raise
        execute(ev, node.handlers[0].body, scope)
    finally:
        execute(ev, node.finalbody, scope)


def _match(ev: Evaluator, node: ast.Match, scope: Scope) -> None:
    subject = scalar_operand(evaluate(ev, node.subject, scope))
    if in_kernel(ev, scope) and is_device(subject):
        ev.problem("python-syntax", "match compares values of Python, and its subject is one of the device; write if and elif", node.subject)
    for k, case in enumerate(node.cases):
        found = patterns.matches(ev, case.pattern, subject, scope)
        if found and case.guard is not None:
            found = truth(ev, scalar_operand(evaluate(ev, case.guard, scope)))
        if found:
            execute(ev, case.body, scope)
            return
        if found is None:
            rest: list[ast.stmt] = [ast.copy_location(ast.Match(node.subject, node.cases[k + 1:]), node)] if node.cases[k + 1:] else []
            if in_kernel(ev, scope):
                branches.maybe(ev, ast.copy_location(ast.If(node.subject, case.body, rest), node), scope)
            else:
                run_both(ev, [*(c.body for c in node.cases[k:]), []], scope)
            return


# -- definitions ----------------------------------------------------------------------------------------------------------
def _functiondef(ev: Evaluator, node: ast.FunctionDef, scope: Scope) -> None:
    if in_kernel(ev, scope):
        refused.check_function(ev, node)
    value: Any = functions.make_function(ev, node, scope)
    for decorator in reversed(node.decorator_list):
        value = decorators.decorate(ev, evaluate(ev, decorator, scope), value, decorator)
    if isinstance(value, Function) and value.kind == "prim_func":
        ev.prim_funcs.append(value)
    scope.assign(node.name, value)


def _asyncdef(ev: Evaluator, node: ast.AsyncFunctionDef, scope: Scope) -> None:
    scope.assign(node.name, unknown("async function"))


def _classdef(ev: Evaluator, node: ast.ClassDef, scope: Scope) -> None:
    from .classes import define_class

    scope.assign(node.name, define_class(ev, node, scope))


def _import(ev: Evaluator, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        name = alias.name if alias.asname else alias.name.split(".")[0]
        if not alias.asname:
            ev.workspace.module(ev, alias.name)
        scope.assign(alias.asname or name, ev.workspace.module(ev, name))


def _importfrom(ev: Evaluator, node: ast.ImportFrom, scope: Scope) -> None:
    module = ev.workspace.module_from(ev, node.module or "", node.level, scope)
    for alias in node.names:
        if alias.name == "*":
            ev.workspace.import_star(ev, module, scope)
        else:
            scope.assign(alias.asname or alias.name, ev.workspace.member(ev, module, alias.name, node))


_HANDLERS: dict[type, Any] = {
    ast.Assign: _assign, ast.AnnAssign: _annassign, ast.AugAssign: _augassign, ast.Delete: _delete, ast.Global: _global,
    ast.Nonlocal: _nonlocal, ast.Expr: _expr, ast.Return: _return, ast.Break: _break, ast.Continue: _continue,
    ast.Raise: _raise, ast.Assert: _assert, ast.If: _if, ast.For: _for, ast.While: _while, ast.With: _with, ast.Try: _try,
    ast.Match: _match, ast.FunctionDef: _functiondef, ast.AsyncFunctionDef: _asyncdef, ast.ClassDef: _classdef,
    ast.Import: _import, ast.ImportFrom: _importfrom,
}

from . import functions, patterns, plain_code, subscripts  # noqa: E402  (they need the names above)
from .tile import binding, branches, decorators, elements, launch, loops, no_value, rebinding, refused, signature  # noqa: E402  (they need the names above)
