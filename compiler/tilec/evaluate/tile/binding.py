"""Names, expression statements and returns with the meaning kernels give them (tilelang/language/eager/builder.py, 0.1.15)."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import GLOBAL, VAR, Buffer, Region
from ...ir.build import const
from ...ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Unknown, Var, walk
from ...ir.stmt import Evaluate, Let, TileOp
from ..evaluator import Evaluator
from ..scope import Scope
from ..values import MISSING, LaunchValue, LoopValue, Output, Reference, is_unknown, plain
from . import rebinding
from .elements import as_scalar, store


def bind_name(ev: Evaluator, target: ast.Name, value: Any, scope: Scope) -> Any:
    """The value a name gets by assignment inside a kernel; stores and lets are emitted as they are due."""
    builder = ev.builder
    assert builder is not None
    if isinstance(value, LaunchValue):
        from .launch import enter_launch

        return enter_launch(ev, value)
    if isinstance(value, LoopValue) and value.kind == "thread_binding":
        from .loops import bound_index

        return bound_index(ev, value)
    old = scope.names.get(target.id, MISSING)
    if isinstance(value, Buffer) and value.scope == VAR and not value.attrs.get("unnamed"):
        value = as_scalar(value)
    if isinstance(value, Reference):
        value = as_scalar(value)
    if _is_scalar(value) and _is_assignable(old):
        _store_variable(ev, old, value, target)
        return old
    if isinstance(value, Output):
        return _output(ev, target.id, value)
    if isinstance(value, Buffer):
        _name_buffer(ev, value, target.id)
        builder.record_name(scope, target.id, ev.span(target))
        return value
    if isinstance(value, Expr) and not is_unknown(value):
        return bind_expression(ev, target, plain(value), scope)
    if builder.frames and isinstance(value, (int, float)):
        rebinding.note(ev, target, old, value, scope)
    return value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, Expr))


def _is_assignable(old: Any) -> bool:
    return isinstance(old, Reference) or (isinstance(old, Buffer) and old.scope == VAR)


def _store_variable(ev: Evaluator, old: Any, value: Any, target: ast.AST) -> None:
    if isinstance(old, Reference):
        store(ev, old.buffer, old.indices, value, ev.span(target))
    else:
        store(ev, old, tuple(const(0) for _ in old.shape), value, ev.span(target))


def _name_buffer(ev: Evaluator, buffer: Buffer, name: str) -> None:
    if buffer.attrs.pop("unnamed", False):
        assert ev.builder is not None
        buffer.name = ev.builder.unique(name)


def bind_expression(ev: Evaluator, target: ast.Name, value: Any, scope: Scope) -> Any:
    """Values that read memory are bound where they are assigned; pure arithmetic stays an expression."""
    builder = ev.builder
    assert builder is not None
    if not isinstance(value, Expr):
        return value
    if isinstance(value, Const):
        if builder.frames:
            rebinding.note(ev, target, scope.names.get(target.id, MISSING), value, scope)
        return value
    if not isinstance(value, Var):
        loop = any(getattr(f, "kind", "") in ("for", "parallel", "while", "if", "launch", "macro", "maybe") for f in builder.frames)
        if not loop:
            return value
    builder.record_name(scope, target.id, ev.span(target))
    if isinstance(value, Var) or not any(isinstance(e, (Load, Call)) for e in walk(value)):
        return value
    var = Var(value.dtype, ev.span(target), builder.unique(target.id), "let")
    builder.emit(Let(ev.span(target), var, value))
    builder.lets[var] = value
    return var


def _output(ev: Evaluator, name: str, value: Output) -> Buffer:
    builder = ev.builder
    assert builder is not None
    kind = value.type
    shape = kind.shape or ()
    buffer = Buffer(builder.unique(name), tuple(shape), kind.dtype, GLOBAL, kind.span, kind.strides)
    builder.params.append(buffer)
    builder.outputs.append(buffer)
    return buffer


def evaluate_statement(ev: Evaluator, value: Any, node: ast.Expr) -> None:
    """An expression used as a statement."""
    builder = ev.builder
    assert builder is not None
    if isinstance(value, LaunchValue):
        from .launch import enter_launch

        enter_launch(ev, value)
    elif isinstance(value, LoopValue) and value.attrs.get("launches"):
        from .loops import bound_index

        bound_index(ev, value)
    elif isinstance(value, Call):
        builder.emit(Evaluate(ev.span(node), value))
    elif isinstance(value, Unknown) and isinstance(node.value, ast.Call) and not value.reason.startswith("T."):
        # A call of something the evaluator does not know, from inside the kernel: it may do anything to the buffers it was given.
        builder.emit(TileOp(ev.span(node), "unsupported", {"name": ev.source.segment(node.value.func)}))
    else:
        _check_unused(ev, value, node)


def _check_unused(ev: Evaluator, value: Any, node: ast.Expr) -> None:
    """A value that is computed and thrown away."""
    if isinstance(value, LoopValue):
        ev.problem("unused-expression", "a loop as a statement of its own does nothing useful; write for ... in it", node)
    elif isinstance(value, (Binary, Unary, Cast, Select, Load)) and isinstance(node.value, (ast.BinOp, ast.Compare, ast.Subscript, ast.UnaryOp)):
        hint = "; = assigns" if isinstance(node.value, ast.Compare) and isinstance(node.value.ops[0], ast.Eq) else ""
        ev.problem("unused-expression", f"this value is computed and thrown away{hint}", node)


def check_return(ev: Evaluator, value: Any, node: ast.Return) -> Any:
    """A return inside a kernel or macro."""
    builder = ev.builder
    assert builder is not None
    if any(f.kind == "macro" for f in builder.frames):
        if builder.in_control_flow():
            ev.problem("macro-return", "a macro cannot return from inside a device loop or branch; allocate a variable before it, assign it "
                       "inside and return it after", node)
        return tuple(as_scalar(v) for v in value) if isinstance(value, tuple) else as_scalar(value)
    if builder.in_control_flow():
        ev.problem("python-syntax", "a kernel cannot return from inside a device loop or branch; T.thread_return() ends the thread", node)
        builder.attrs["incomplete"] = "it returns from inside a device loop or branch, which is not understood"
    _check_outputs(ev, value, node)
    return value


def _check_outputs(ev: Evaluator, value: Any, node: ast.Return) -> None:
    builder = ev.builder
    assert builder is not None
    builder.return_span = ev.span(node)
    values = value if isinstance(value, tuple) else () if value is None else (value,)
    if any(is_unknown(v) for v in values):
        builder.returned = list(builder.outputs)
        return
    returned = [v for v in values if isinstance(v, Buffer) and v in builder.outputs]
    wrong = next((v for v in values if not (isinstance(v, Buffer) and v in builder.outputs)), None)
    if wrong is not None:
        what = f"{wrong.name} is not one" if isinstance(wrong, (Buffer, Region)) and hasattr(wrong, "name") else "this value is not one"
        ev.problem("eager-return", f"a kernel returns tensors made by T.empty; {what}", node.value or node)
    builder.returned = returned
