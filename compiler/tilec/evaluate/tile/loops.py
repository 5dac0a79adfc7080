"""Loops: T.serial, T.unroll, T.vectorized, T.Parallel, T.Pipelined, T.Persistent, ``range`` and ``while`` in kernels."""
from __future__ import annotations

import ast
from typing import Any

from ...ir import build, dtypes
from ...ir.buffer import Buffer, Region
from ...ir.build import const, lift
from ...ir.expr import Expr, Var, is_host_choice
from ...ir.stmt import For, If, Let, Parallel, While
from ...source.span import Span
from ..blocks import statements_within
from ..evaluator import Evaluator
from ..expressions import scalar_operand, truth
from ..scope import Scope
from ..values import Class, DType, Instance, LoopValue, is_device, is_unknown, plain, unknown
from .branches import trace_branch
from .registry import Bound, api


# -- making loops -----------------------------------------------------------------------------------------------------
def make_serial(ev: Evaluator, kind: str, args: list[Any], node: ast.Call | None, name: str, attrs: dict[str, Any] | None = None) -> Any:
    """``serial(stop)``, ``serial(start, stop)``, ``serial(start, stop, step)``."""
    args = [_bound(a, name) if a is not None else None for a in args]
    if not 1 <= len(args) <= 3 or args[0] is None:
        return unknown(name)
    span = ev.span(node) if node is not None else None
    nodes = list(node.args) if node is not None else []
    for value, where in zip(args, nodes):
        _check_integer(ev, value, where, name)
    start, stop = (0, args[0]) if len(args) == 1 or args[1] is None else (args[0], args[1])
    step = args[2] if len(args) == 3 and args[2] is not None else 1
    if step == 0 and node is not None:
        ev.problem("loop-step", f"the step of {name} is 0", _step_node(node))
        return unknown(name)
    if isinstance(step, int):
        extent = _trip_count(start, stop, step)
    else:
        if isinstance(step, Expr) and not is_unknown(step) and not is_host_choice(step) and node is not None:
            ev.problem("loop-step-dynamic", f"the step of {name} is known at run time only; TileLang takes constant steps", _step_node(node))
        extent, step = unknown("step"), 1
    return LoopValue(kind, start, (extent,), step, attrs or {}, span)


def _bound(value: Any, name: str) -> Any:
    """A number or an expression; what is neither (a module, say) is not known."""
    value = plain(scalar_operand(value))
    return value if isinstance(value, (int, float, Expr)) else unknown(name)


def _step_node(node: ast.Call) -> ast.expr:
    named = next((k.value for k in node.keywords if k.arg == "step"), None)
    return named or (node.args[2] if len(node.args) > 2 else node)


def _check_integer(ev: Evaluator, value: Any, where: ast.AST, name: str) -> None:
    if isinstance(value, float) or (is_device(value) and dtypes.is_float(value.dtype)):
        shown = f" ({value})" if isinstance(value, float) else ""
        ev.problem("loop-extent-float", f"a bound of {name} is a float{shown}; loop bounds are integers (use // for division)", where)


def _trip_count(start: Any, stop: Any, step: int) -> Any:
    if isinstance(start, float) or isinstance(stop, float):
        return unknown("float bound")
    if not isinstance(start, (int, Expr)) or not isinstance(stop, (int, Expr)):
        return unknown("bound")
    span = elements.difference(lift(stop), lift(start)) if step > 0 else elements.difference(lift(start), lift(stop))
    return plain(span) if abs(step) == 1 else plain(build.ceildiv(span, abs(step)))


@api("serial", "start stop= step= * annotations=")
def serial(ev: Evaluator, b: Bound) -> Any:
    return make_serial(ev, "serial", [b["start"], b["stop"], b["step"]], b.node, "T.serial")


@api("unroll", "start stop= step= * explicit= unroll_factor= annotations=")
def unroll(ev: Evaluator, b: Bound) -> Any:
    attrs = {"explicit": b.flag("explicit"), "unroll_factor": b["unroll_factor"]}
    return make_serial(ev, "unroll", [b["start"], b["stop"], b["step"]], b.node, "T.unroll", attrs)


@api("Unroll", "start stop= step= * explicit= unroll_factor= annotations=")
def unroll_alias(ev: Evaluator, b: Bound) -> Any:
    return unroll(ev, b)


@api("Vectorized", "start stop= * annotations=")
def vectorized_alias(ev: Evaluator, b: Bound) -> Any:
    return vectorized(ev, b)


@api("vectorized", "start stop= * annotations=")
def vectorized(ev: Evaluator, b: Bound) -> Any:
    return make_serial(ev, "vectorized", [b["start"], b["stop"]], b.node, "T.vectorized")


@api("Serial", "start stop= step= * annotations=")
def serial_alias(ev: Evaluator, b: Bound) -> Any:
    return make_serial(ev, "serial", [b["start"], b["stop"], b["step"]], b.node, "T.Serial")


@api("Pipelined", "start stop= num_stages= order= stage= sync= group= annotations=")
def pipelined(ev: Evaluator, b: Bound) -> Any:
    stages = plain(b["num_stages"])
    if "num_stages" in b.nodes and not is_unknown(stages):
        if isinstance(stages, Expr):
            ev.problem("pipeline-num-stages", "num_stages is known at run time only; it must be a compile-time integer", b.nodes["num_stages"])
        elif isinstance(stages, (float, str, list, tuple, DType)):
            shown = f"T.{stages.name}" if isinstance(stages, DType) else repr(stages)
            ev.problem("pipeline-num-stages", f"num_stages is {shown}; it must be an integer", b.nodes["num_stages"])
    attrs = {"num_stages": 0 if stages is None else stages, "order": b["order"], "stage": b["stage"], "group": b["group"],
             "spans": {k: ev.span(n) for k, n in b.nodes.items()}}
    return make_serial(ev, "pipelined", [b["start"], b["stop"]], _positional_only(b), "T.Pipelined", attrs)


def _positional_only(b: Bound) -> Any:
    """The call with just its bounds as arguments, for reporting on them."""
    if b.node is None:
        return None
    bounds = [b.nodes[n] for n in ("start", "stop") if n in b.nodes]
    return ast.copy_location(ast.Call(b.node.func, bounds, []), b.node)


@api("Parallel", "*extents coalesced_width= loop_layout= prefer_async= annotations=")
def parallel(ev: Evaluator, b: Bound) -> Any:
    return _box(ev, b, "parallel", "T.Parallel")


@api("grid", "*extents")
def grid(ev: Evaluator, b: Bound) -> Any:
    return _box(ev, b, "grid", "T.grid")


def _box(ev: Evaluator, b: Bound, kind: str, name: str) -> Any:
    extents = [plain(scalar_operand(e)) for e in b["extents"]]
    for value, where in zip(extents, b["extents_nodes"]):
        if where is not None:
            _check_integer(ev, value, where, name)
    checked = tuple(e if isinstance(e, (int, Expr)) else unknown("extent") for e in extents)
    attrs = {k: b[k] for k in ("coalesced_width", "loop_layout", "prefer_async") if b[k] is not None}
    attrs["spans"] = {k: ev.span(n) for k, n in b.nodes.items()}
    return LoopValue(kind, 0, checked, 1, attrs, b.span) if checked else unknown(name)


@api("Persistent", "domain wave_size index group_size= num_stages= * annotations=")
def persistent(ev: Evaluator, b: Bound) -> Any:
    domain, wave, index = b["domain"], plain(scalar_operand(b["wave_size"])), plain(scalar_operand(b["index"]))
    if not isinstance(domain, (list, tuple)) or not domain or not isinstance(wave, (int, Expr)) or not isinstance(index, (int, Expr)):
        return unknown("T.Persistent")
    extents = tuple(_bound(e, "extent") for e in domain)
    return LoopValue("persistent", 0, extents, 1, {"wave_size": wave, "index": index}, b.span)


@api("thread_binding", "start stop= thread= * annotations=")
def thread_binding(ev: Evaluator, b: Bound) -> Any:
    """``for i in T.thread_binding(n, thread="threadIdx.x")`` or ``i = T.thread_binding(...)``: the index itself."""
    from .axes import AXES

    axis, stop = b["thread"], b["stop"]
    if axis is None and isinstance(stop, str):
        axis, stop = stop, None
    if not isinstance(axis, str) or axis not in AXES:
        return unknown("T.thread_binding")
    extent = b["start"] if stop is None else stop
    return LoopValue("thread_binding", 0, (_bound(extent, "extent"),), 1, {"axis": axis}, b.span)


def bound_index(ev: Evaluator, loop: LoopValue) -> Any:
    """The block or thread index a T.thread_binding stands for."""
    from .axes import axis_index

    return axis_index(ev, loop.attrs["axis"], loop.extents[0], loop.span)


# -- running loops on the device -----------------------------------------------------------------------------------------
def device_for(ev: Evaluator, node: ast.For, loop: LoopValue, scope: Scope) -> None:
    if loop.kind == "parallel":
        _parallel(ev, node, loop, scope)
    elif loop.kind == "grid":
        _grid(ev, node, loop, scope)
    elif loop.kind == "persistent":
        _persistent(ev, node, loop, scope)
    elif loop.kind == "thread_binding":
        statements.assign_target(ev, node.target, bound_index(ev, loop), scope, bind=False)
        ev.run(node.body, scope)
    else:
        _serial(ev, node, loop, scope)


def head_span(ev: Evaluator, node: ast.For) -> Span:
    """From ``for`` to the end of the iterable: the loop's header."""
    whole, end = ev.span(node), ev.span(node.iter)
    return Span(whole.path, whole.line, whole.column, end.end_line, end.end_column, whole.caller)


def _target_names(node: ast.For) -> list[str]:
    if isinstance(node.target, (ast.Tuple, ast.List)):
        return [t.id if isinstance(t, ast.Name) else "_" for t in node.target.elts]
    return [node.target.id if isinstance(node.target, ast.Name) else "i"]


def _loop_var(ev: Evaluator, name: str, like: Any, where: ast.AST) -> Var:
    assert ev.builder is not None
    dtype = like.dtype if isinstance(like, Expr) and dtypes.is_int(like.dtype) else "int32"
    return Var(dtype, ev.span(where), ev.builder.unique(name if name != "_" else "i"), "loop")


def _serial(ev: Evaluator, node: ast.For, loop: LoopValue, scope: Scope) -> None:
    builder = ev.builder
    assert builder is not None
    var = _loop_var(ev, _target_names(node)[0], loop.extents[0], node.target)
    builder.push()
    builder.enter("for")
    try:
        statements.assign_target(ev, node.target, var, scope, bind=False)
        _record_targets(ev, node, scope)
        _check_assigned(ev, node)
        ev.run(node.body, scope)
    finally:
        builder.leave()
        body = builder.pop()
    start, extent = lift(loop.start), lift(loop.extents[0])
    builder.emit(For(head_span(ev, node), var, start, extent, body, loop.kind, loop.step, dict(loop.attrs)))


def _record_targets(ev: Evaluator, node: ast.For, scope: Scope) -> None:
    assert ev.builder is not None
    for name in _target_names(node):
        ev.builder.record_name(scope, name, ev.span(node.target))


def _check_assigned(ev: Evaluator, node: ast.For) -> None:
    """An assignment to the loop variable does not change the loop."""
    if not ev.reporting:
        return
    for name, statement in _reassigned(node):
        ev.problem("loop-var-modified", f"{name} is the loop variable; assigning to it does not change the loop", statement)


def _reassigned(node: ast.For) -> list[tuple[str, ast.AST]]:
    """Assignments to the loop's variables in its body, kept with the tree: a kernel is traced for many instances."""
    known: list[tuple[str, ast.AST]] | None = getattr(node, "tilec_reassigned", None)
    if known is None:
        names = set(_target_names(node)) - {"_"}
        inside = [inner for statement in node.body for inner in (statement, *statements_within(statement)) if isinstance(inner, (ast.Assign, ast.AugAssign))]
        known = [(target.id, inner) for inner in inside for target in (inner.targets if isinstance(inner, ast.Assign) else [inner.target])
                 if isinstance(target, ast.Name) and target.id in names]
        node.tilec_reassigned = known  # type: ignore[attr-defined]
    return known


def _parallel(ev: Evaluator, node: ast.For, loop: LoopValue, scope: Scope) -> None:
    names = _target_names(node)
    variables = _box_variables(ev, node, loop, names, scope, "T.Parallel")
    if variables is None:
        return
    body = trace_branch(ev, node.body, scope, "parallel")
    assert ev.builder is not None
    ev.builder.emit(Parallel(head_span(ev, node), tuple(variables), tuple(lift(e) for e in loop.extents), body, dict(loop.attrs)))
    ev.builder.leave()


def _box_variables(ev: Evaluator, node: ast.For, loop: LoopValue, names: list[str], scope: Scope, what: str) -> list[Var] | None:
    """Variables of a box of loops, bound in a frame of their own (closed by the caller); None if the names do not fit."""
    single = not isinstance(node.target, (ast.Tuple, ast.List))
    if len(names) != len(loop.extents) and not single:
        ev.problem("python-iterate-device", f"{what} over {len(loop.extents)} extents yields {len(loop.extents)} indices, not {len(names)}", node.target)
        return None
    if single and len(loop.extents) > 1:
        names = [f"{names[0]}_{k}" for k in range(len(loop.extents))]
    variables = [_loop_var(ev, name, extent, node.target) for name, extent in zip(names, loop.extents)]
    assert ev.builder is not None
    ev.builder.enter("for")
    statements.assign_target(ev, node.target, variables[0] if len(variables) == 1 and single else tuple(variables), scope, bind=False)
    _record_targets(ev, node, scope)
    return variables


def _grid(ev: Evaluator, node: ast.For, loop: LoopValue, scope: Scope) -> None:
    variables = _box_variables(ev, node, loop, _target_names(node), scope, "T.grid")
    if variables is None:
        return
    body = trace_branch(ev, node.body, scope, "for")
    assert ev.builder is not None
    for var, extent in reversed(list(zip(variables, loop.extents))):
        body = (For(head_span(ev, node), var, const(0), lift(extent), body),)
    ev.builder.emit(body[0])
    ev.builder.leave()


def _persistent(ev: Evaluator, node: ast.For, loop: LoopValue, scope: Scope) -> None:
    """Waves over a flattened domain: tile ``wave * wave_size + index`` while it is inside."""
    builder = ev.builder
    assert builder is not None
    total: Any = 1
    for extent in loop.extents:
        total = total * extent
    waves = build.ceildiv(lift(total), lift(loop.attrs["wave_size"]))
    wave = _loop_var(ev, "wave", waves, node.target)
    tile = Var("int32", ev.span(node.target), builder.unique("tile"), "let")
    builder.push()
    builder.enter("for")
    rest: Any = tile
    position: list[Any] = []
    for extent in reversed(loop.extents):
        position.insert(0, rest % extent)
        rest = rest // extent
    statements.assign_target(ev, node.target, tuple(position) if len(position) > 1 else position[0], scope, bind=False)
    _record_targets(ev, node, scope)
    inner = trace_branch(ev, node.body, scope, "if")
    builder.leave()
    builder.pop()
    span = head_span(ev, node)
    body = (Let(span, tile, wave * loop.attrs["wave_size"] + loop.attrs["index"]), If(span, build.binary("lt", tile, total), inner))
    builder.emit(For(span, wave, const(0), waves, body, attrs={"persistent": tuple(loop.extents)}))


def unknown_device_loop(ev: Evaluator, node: Any, scope: Scope) -> None:
    """A loop over something that is not known: traced once under an unknown condition."""
    builder = ev.builder
    assert builder is not None
    reporting, ev.reporting = ev.reporting, False
    try:
        body = trace_branch(ev, node.body, scope, "maybe")
    finally:
        ev.reporting = reporting
    builder.emit(If(ev.span(node), unknown("loop"), body, ()))


def device_while(ev: Evaluator, node: ast.While, scope: Scope) -> None:
    value = ev.eval(node.test, scope)
    from .branches import is_tile_condition
    from .refused import check_else

    check_else(ev, node, node.test)
    if is_tile_condition(ev, value, node.test):
        return
    cond = plain(scalar_operand(value))
    if is_unknown(cond):
        unknown_device_loop(ev, node, scope)
        return
    if not isinstance(cond, Expr):
        if truth(ev, cond):
            ev.problem("python-syntax", "the condition of this while is always true, which is not possible inside a kernel (not even with break); "
                       "loop over a condition that changes, such as a T.alloc_var flag", node.test)
        return
    body = trace_branch(ev, node.body, scope, "while")
    assert ev.builder is not None
    ev.builder.emit(While(ev.span(node), build.as_bool(cond), body))


# -- iterating on the host -------------------------------------------------------------------------------------------------
def iterate_host(ev: Evaluator, value: Any, node: ast.AST | None) -> Any:
    """The items of a sequence known while building, or None."""
    if isinstance(value, (list, tuple, range, str)):
        return value
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, DType):
        return value.name  # TileLang's data types are strings
    if isinstance(value, (Instance, Class)):
        return _iterate_object(ev, value)
    if isinstance(value, LoopValue) and value.kind in ("serial", "unroll") and isinstance(value.start, int) and isinstance(value.extents[0], int):
        return range(value.start, value.start + value.extents[0] * value.step, value.step)
    if ev.builder is not None and node is not None and (isinstance(value, (Buffer, Region)) or is_device(value)):
        what = f"{value.name} is a buffer" if isinstance(value, Buffer) else "this is a device value"
        ev.problem("python-iterate-device", f"{what}; it cannot be iterated while the kernel is built (loop over an index instead)", node)
    return None


def _iterate_object(ev: Evaluator, value: Any) -> Any:
    """Named tuples give their fields, enum classes their members."""
    from ..classes import as_tuple, enum_members

    if isinstance(value, Class):
        return enum_members(ev, value) if value.is_enum else None
    return as_tuple(value) if value.cls.is_tuple else None

from .. import statements  # noqa: E402  (they need the names above)
from . import elements  # noqa: E402  (they need the names above)
