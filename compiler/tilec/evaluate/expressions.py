"""Evaluation of expressions: one small function per kind of syntax node."""
from __future__ import annotations

import ast
import operator
from pathlib import PurePath
from typing import Any

from ..ir import build
from ..ir.buffer import Buffer, Region
from ..ir.expr import Const, Expr, Unknown
from . import sizes
from .evaluator import Evaluator, Stop
from .scope import Scope
from .values import (
    MISSING,
    Api,
    BoundMethod,
    Class,
    DType,
    Expired,
    Function,
    HostTensor,
    Instance,
    Module,
    Native,
    derived,
    dtype_name,
    is_device,
    is_hardware,
    is_unknown,
    names_other_vendor,
    plain,
    same,
    unknown,
)

BINARY = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("floormod", operator.mod), ast.Pow: ("pow", operator.pow), ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("shr", operator.rshift), ast.BitAnd: ("bitand", operator.and_), ast.BitOr: ("bitor", operator.or_),
    ast.BitXor: ("bitxor", operator.xor), ast.MatMult: ("matmul", operator.matmul),
}
COMPARE = {
    ast.Lt: ("lt", operator.lt), ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
    ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne),
}
MAX_VALUE_BITS = 4096  # larger integers, longer strings and lists than MAX_LENGTH are not computed
MAX_LENGTH = 20_000


def evaluate(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """The value of an expression. Never raises for what the user wrote, except the control signals of ``evaluator``."""
    ev.steps_left = left = ev.steps_left - 1
    if left <= 0:
        raise Stop
    handler = _HANDLERS.get(node.__class__)
    if handler is None:
        return unknown(type(node).__name__)
    return handler(ev, node, scope)


def _constant(ev: Evaluator, node: ast.Constant, scope: Scope) -> Any:
    return node.value


def _name(ev: Evaluator, node: ast.Name, scope: Scope) -> Any:
    name = node.id
    value = scope.names.get(name, MISSING)
    if value is MISSING:
        value = scope.lookup(name)
        if value is MISSING:
            value = BUILTINS.get(name, MISSING)
            if value is MISSING:
                return _undefined(ev, node, scope)
    if value.__class__ is Expired:
        return _expired(ev, node, value)
    if ev.trail is not None:
        ev.trail.saw(node, value)
    return value


def _undefined(ev: Evaluator, node: ast.Name, scope: Scope) -> Any:
    if not is_python_builtin(node.id) and not scope.is_open() and ev.news("undefined-name", node) and ev.news("use-before-alloc", node):
        from .names import allocated_later, suggestion

        later = allocated_later(ev.source, node) if ev.builder is not None else None
        if later is not None:
            ev.problem("use-before-alloc", f"{node.id} is used before it is allocated", node, ("allocated here", ev.source.span(later)))
        else:
            ev.problem("undefined-name", f"name {node.id!r} is not defined{suggestion(node.id, scope)}", node)
    return unknown(f"name {node.id}")


def _expired(ev: Evaluator, node: ast.Name, value: Expired) -> Any:
    if value.tile:
        ev.problem("buffer-outside-kernel", f"{value.name} lives in the kernel launch that has ended; use it inside the with T.Kernel(...) block, or hand "
                   "its values on through a global tensor", node, *((("allocated here", value.span),) if value.span else ()))
        return unknown(f"name {value.name}")
    if value.constant:
        rebinding.told(ev, node, value)
        return unknown(f"name {value.name}")
    related = (("bound here, inside a device loop or branch", value.span),) if value.span else ()
    ev.problem("variable-scope", f"{value.name!r} is bound inside a device loop or branch that has ended; its value does not exist "
               "here (use T.alloc_var before the loop and assign it inside)", node, *related)
    return unknown(f"name {value.name}")


def _binop(ev: Evaluator, node: ast.BinOp, scope: Scope) -> Any:
    left, right = evaluate(ev, node.left, scope), evaluate(ev, node.right, scope)
    if ev.builder is not None and (left is None or right is None):
        no_value.check_operand(ev, node.left if left is None else node.right, scope)
    return binary_value(ev, type(node.op), left, right, node)


def binary_value(ev: Evaluator, op: type[ast.operator], left: Any, right: Any, node: ast.AST) -> Any:
    """``left op right`` for host and device values alike."""
    name, python = BINARY[op]
    left, right = scalar_operand(left), scalar_operand(right)
    if is_unknown(left) or is_unknown(right):
        return _unknown_binary(left, right)
    if ev.builder is not None and isinstance(left, (tuple, list)) != isinstance(right, (tuple, list)):
        launch.check_index_list(ev, left if isinstance(left, (tuple, list)) else right)
    if isinstance(left, Expr) or isinstance(right, Expr):
        operands.check_buffer_operand(ev, left, right, node)
        return _device_binary(ev, name, left, right, node)
    if isinstance(left, (Buffer, Region)) or isinstance(right, (Buffer, Region)):
        operands.check_buffer_operand(ev, left, right, node)
        return unknown("arithmetic on a buffer")
    if isinstance(left, HostTensor) or isinstance(right, HostTensor):
        return torch_model.tensor_binary(name, left, right)
    return _host_binary(ev, name, python, left, right)


def scalar_operand(value: Any) -> Any:
    """A T.alloc_var or one-element view used as a value means its element; references mean what they refer to."""
    return as_scalar(value)


def _unknown_binary(left: Any, right: Any) -> Any:
    known = left if is_unknown(left) else right
    other = right if known is left else left
    if isinstance(other, (int, float, Expr)) and not isinstance(other, Unknown):
        return Unknown("unknown", None, known.reason)
    return unknown(known.reason)


def _device_binary(ev: Evaluator, name: str, left: Any, right: Any, node: ast.AST) -> Any:
    if not _is_number(left) or not _is_number(right):
        return unknown("operands")
    if sizes.are_sizes(left, right):
        return sizes.binary(name, left, right)
    if not operands.check_operands(ev, name, left, right, node):
        return unknown("operands")
    return plain(build.binary(name, left, right, ev.span(node)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (Expr, int, float))


def _host_binary(ev: Evaluator, name: str, python: Any, left: Any, right: Any) -> Any:
    if not _is_small(name, left, right):
        return unknown("large value")
    try:
        return python(left, right)
    except Exception:
        return unknown(name)


def _is_small(name: str, left: Any, right: Any) -> bool:
    if isinstance(left, int) and isinstance(right, int):
        if name in ("pow", "shl"):
            return abs(right) <= 256 and left.bit_length() * max(right, 1) <= MAX_VALUE_BITS
        return left.bit_length() + right.bit_length() <= 2 * MAX_VALUE_BITS
    if name == "mul":
        sequence, count = (left, right) if isinstance(right, int) else (right, left)
        if isinstance(sequence, (str, list, tuple)) and isinstance(count, int):
            return len(sequence) * max(count, 0) <= MAX_LENGTH
    if name == "add" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        return len(left) + len(right) <= MAX_LENGTH
    if isinstance(left, PurePath):
        return name == "div"
    return isinstance(left, (int, float, complex, str, bytes, list, tuple, set, frozenset, dict)) or name == "mod"


def _unaryop(ev: Evaluator, node: ast.UnaryOp, scope: Scope) -> Any:
    value = scalar_operand(evaluate(ev, node.operand, scope))
    if is_unknown(value):
        return value
    if isinstance(value, Expr):
        op = {ast.USub: "neg", ast.Not: "not", ast.Invert: "bitnot"}.get(type(node.op))
        if op == "not":
            plain_code.refuse_condition(ev, value, node)
            operands.check_condition(ev, value, node, "not")
        return value if op is None else plain(build.unary(op, value, ev.span(node)))
    if isinstance(value, (Buffer, Region)) and isinstance(node.op, (ast.USub, ast.Invert)):
        operands.check_buffer_operand(ev, value, value, node)
    if isinstance(node.op, ast.Not):
        if ev.builder is not None and is_tile_condition(ev, value, node.operand):
            return unknown("not")
        known = truth(ev, value)
        return derived("not", value) if known is None else not known
    try:
        python: dict[type, Any] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
        return python[type(node.op)](value)
    except Exception:
        return unknown("operand")


def truth(ev: Evaluator, value: Any) -> bool | None:
    """Python's truth of a host value; None if it is not known or a device value."""
    value = plain(value)
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Expr):
        return None
    if isinstance(value, (bool, int, float, str, bytes, list, tuple, dict, set, frozenset, range)) or value is None:
        return bool(value)
    if isinstance(value, (Function, DType)):
        return True
    if isinstance(value, (Class, Module, Native, Api, BoundMethod)):
        return True
    if isinstance(value, Instance):
        return None if value.opaque or value.cls.opaque or value.cls.lookup("__bool__") is not MISSING \
            or value.cls.lookup("__len__") is not MISSING else True
    if isinstance(value, HostTensor):
        return None
    return None


def _boolop(ev: Evaluator, node: ast.BoolOp, scope: Scope) -> Any:
    name = "and" if isinstance(node.op, ast.And) else "or"
    result: Any = None
    for i, part in enumerate(node.values):
        value = scalar_operand(_lazily(ev, part, scope) if i > 0 and is_device(result) else evaluate(ev, part, scope))
        if ev.builder is not None and is_tile_condition(ev, value, part):
            return unknown(name)
        if i + 1 < len(node.values):
            plain_code.refuse_condition(ev, value, part)
        if i == 0:
            result = value
        elif is_device(result) or is_device(value):
            if is_unknown(result) or is_unknown(value) or not _is_number(result) or not _is_number(value):
                result = unknown(name)
            else:
                _check_logical(ev, node, i, result, value)
                result = plain(build.binary(name, result, value, ev.span(node)))
        elif is_unknown(result):
            if truth(ev, value) is (name == "or"):
                return value  # it decides, whatever the unknown one is
            result = derived(name, result, value)
        else:
            result = value
        known = truth(ev, result) if not is_device(result) else None
        if known is not None and known == (name == "or"):
            return result
    return result


def _check_logical(ev: Evaluator, node: ast.BoolOp, position: int, left: Any, right: Any) -> None:
    word = "and" if isinstance(node.op, ast.And) else "or"
    operands.check_condition(ev, left, node.values[position - 1], word)
    operands.check_condition(ev, right, node.values[position], word)


def _lazily(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """An operand whose evaluation depends on a device value: no place for statements, so for no macro."""
    if ev.builder is None:
        return evaluate(ev, node, scope)
    ev.builder.enter("lazy")
    try:
        return evaluate(ev, node, scope)
    finally:
        ev.builder.leave()


def _compare(ev: Evaluator, node: ast.Compare, scope: Scope) -> Any:
    left = evaluate(ev, node.left, scope)
    result: Any = True
    for op, right_node in zip(node.ops, node.comparators):
        right = evaluate(ev, right_node, scope)
        one = compare_value(ev, op, left, right, node)
        result = one if result is True else _and(result, one, ev, node)
        if result is False:
            return False
        left = right
    return result


def _and(a: Any, b: Any, ev: Evaluator, node: ast.AST) -> Any:
    if a is False or b is False:
        return False
    if is_unknown(a) or is_unknown(b):
        return derived("comparison", a, b)
    if is_device(a) or is_device(b):
        return plain(build.binary("and", a, b, ev.span(node)))
    return bool(a) and bool(b)


def compare_value(ev: Evaluator, op: ast.cmpop, left: Any, right: Any, node: ast.AST) -> Any:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return _identity(left, right, isinstance(op, ast.IsNot))
    if isinstance(op, (ast.In, ast.NotIn)):
        return _membership(left, right, isinstance(op, ast.NotIn))
    left, right = scalar_operand(left), scalar_operand(right)
    name, python = COMPARE[type(op)]
    if is_unknown(left) or is_unknown(right):
        other = right if is_unknown(left) else left
        return name == "ne" if names_other_vendor(other) and name in ("eq", "ne") else derived("comparison", left, right)
    if name in ("lt", "le", "gt", "ge") and (isinstance(left, (Buffer, Region)) or isinstance(right, (Buffer, Region))):
        operands.check_buffer_operand(ev, left, right, node)
        return unknown("comparison of a buffer")
    if isinstance(left, Expr) or isinstance(right, Expr):
        if not _is_number(left) or not _is_number(right):
            return unknown("comparison")
        return plain(build.binary(name, left, right, ev.span(node)))
    if isinstance(left, HostTensor) or isinstance(right, HostTensor):
        return torch_model.tensor_binary(name, left, right)
    if _is_enum_member(left) and _is_enum_member(right) and name in ("eq", "ne"):
        return (left is right) == (name == "eq")
    if isinstance(left, DType) or isinstance(right, DType):
        a, b = dtype_name(left), dtype_name(right)
        equal = a is not None and a == b
        return equal if name == "eq" else not equal if name == "ne" else unknown("comparison")
    return _host_compare(python, left, right)


def _is_enum_member(value: Any) -> bool:
    return isinstance(value, Instance) and value.cls.is_enum


def _host_compare(python: Any, left: Any, right: Any) -> Any:
    if _contains_symbolic(left) or _contains_symbolic(right):
        return derived("comparison", *(v for side in (left, right) if isinstance(side, (tuple, list)) for v in side))
    try:
        return python(left, right)
    except Exception:
        return unknown("comparison")


def _contains_symbolic(value: Any) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(_contains_symbolic(v) for v in value)
    return not (isinstance(value, (int, float, str, bytes, bool, DType, dict, range)) or value is None)


def _identity(left: Any, right: Any, negate: bool) -> Any:
    if is_unknown(left) or is_unknown(right):
        return derived("identity", left, right)
    same = left is right or (isinstance(left, (bool, DType)) and left == right)
    return same != negate


def _membership(left: Any, right: Any, negate: bool) -> Any:
    if is_hardware(right) and names_other_vendor(left):
        return negate
    if is_unknown(left) or is_unknown(right) or isinstance(left, Expr):
        return derived("membership", left, right)
    if isinstance(right, (str, bytes)) and isinstance(left, str):
        return (left in right) != negate
    if not isinstance(right, (list, tuple, set, frozenset, dict, range)):
        return unknown("membership")
    name = dtype_name(left) if isinstance(left, DType) else None
    for item in right:
        if is_unknown(item):
            return unknown("membership")
        if name is not None or isinstance(item, DType):
            if dtype_name(item) == dtype_name(left):
                return not negate
        elif _host_compare(operator.eq, left, item) is True:
            return not negate
    return negate


def _ifexp(ev: Evaluator, node: ast.IfExp, scope: Scope) -> Any:
    tested = evaluate(ev, node.test, scope)
    if isinstance(tested, Buffer) and ev.builder is not None:
        if is_tile_condition(ev, tested, node.test):
            return unknown("condition")
    cond = scalar_operand(tested)
    plain_code.refuse_condition(ev, cond, node.test)
    known = truth(ev, cond)
    if known is not None:
        return evaluate(ev, node.body if known else node.orelse, scope)
    run = _lazily if is_device(cond) and not is_unknown(cond) else evaluate
    then, other = run(ev, node.body, scope), run(ev, node.orelse, scope)
    if is_device(cond) and _is_number(scalar_operand(then)) and _is_number(scalar_operand(other)):
        operands.check_condition(ev, cond, node.test, "a conditional expression")
        return build.select(cond, scalar_operand(then), scalar_operand(other), ev.span(node))
    if isinstance(then, DType) and isinstance(other, DType):
        return then  # each is a type the kernel is meant for
    return then if same(then, other) or is_hardware(cond) else unknown("condition")


def _attribute(ev: Evaluator, node: ast.Attribute, scope: Scope) -> Any:
    return get_attribute(ev, evaluate(ev, node.value, scope), node.attr, node)


def _subscript(ev: Evaluator, node: ast.Subscript, scope: Scope) -> Any:
    base = evaluate(ev, node.value, scope)
    return get_item(ev, base, evaluate_index(ev, node.slice, scope), node)


def evaluate_index(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    """An index expression; slices become Python slices of values."""
    if isinstance(node, ast.Slice):
        parts = [None if p is None else plain(scalar_operand(evaluate(ev, p, scope))) for p in (node.lower, node.upper, node.step)]
        return slice(*parts)
    if isinstance(node, ast.Tuple):
        items: list[Any] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                more = evaluate(ev, element.value, scope)
                if not isinstance(more, (list, tuple)):
                    return unknown("index")
                items += more
            else:
                items.append(evaluate_index(ev, element, scope))
        return tuple(items)
    return plain(scalar_operand(evaluate(ev, node, scope)))


def _call(ev: Evaluator, node: ast.Call, scope: Scope) -> Any:
    return calls.evaluate_call(ev, node, scope)


def _sequence(ev: Evaluator, node: Any, scope: Scope) -> Any:
    items: list[Any] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            from .tile.loops import iterate_host

            more = iterate_host(ev, evaluate(ev, element.value, scope), None)
            if more is not None:
                items += list(more)[:MAX_LENGTH]
            else:
                return unknown("star")
        else:
            items.append(evaluate(ev, element, scope))
    if isinstance(node, ast.Tuple):
        return tuple(items)
    if isinstance(node, ast.List):
        return items
    try:
        return set(items)
    except TypeError:
        return unknown("set")


def _dict(ev: Evaluator, node: ast.Dict, scope: Scope) -> Any:
    result: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values):
        value = evaluate(ev, value_node, scope)
        if key_node is None:
            if not isinstance(value, dict):
                return unknown("dict")
            result.update(value)
            continue
        key = evaluate(ev, key_node, scope)
        try:
            result[key] = value
        except TypeError:
            return unknown("dict")
    return result


def _joined(ev: Evaluator, node: ast.JoinedStr, scope: Scope) -> Any:
    parts: list[str] = []
    for value in node.values:
        text = _constant(ev, value, scope) if isinstance(value, ast.Constant) else _formatted(ev, value, scope)  # type: ignore[arg-type]
        if not isinstance(text, str):
            return unknown("f-string")
        parts.append(text)
    return "".join(parts)


def _formatted(ev: Evaluator, node: ast.FormattedValue, scope: Scope) -> Any:
    value = evaluate(ev, node.value, scope)
    spec = "" if node.format_spec is None else evaluate(ev, node.format_spec, scope)
    if isinstance(value, DType):
        value = value.name
    if not isinstance(value, (int, float, str, bool)) or not isinstance(spec, str):
        return unknown("f-string")
    if node.conversion == ord("r"):
        value = repr(value)
    try:
        return format(value, spec)
    except ValueError:
        return unknown("f-string")


def _lambda(ev: Evaluator, node: ast.Lambda, scope: Scope) -> Any:
    return functions.make_function(ev, node, scope)


def _namedexpr(ev: Evaluator, node: ast.NamedExpr, scope: Scope) -> Any:
    value = evaluate(ev, node.value, scope)
    scope.assign(node.target.id, value)
    return value


def _comprehension(ev: Evaluator, node: Any, scope: Scope) -> Any:
    return comprehensions.evaluate_comprehension(ev, node, scope)


def _await(ev: Evaluator, node: Any, scope: Scope) -> Any:
    if getattr(node, "value", None) is not None:
        evaluate(ev, node.value, scope)
    return unknown(type(node).__name__)


_HANDLERS: dict[type, Any] = {
    ast.Constant: _constant, ast.Name: _name, ast.BinOp: _binop, ast.UnaryOp: _unaryop, ast.BoolOp: _boolop,
    ast.Compare: _compare, ast.IfExp: _ifexp, ast.Attribute: _attribute, ast.Subscript: _subscript, ast.Call: _call,
    ast.Tuple: _sequence, ast.List: _sequence, ast.Set: _sequence, ast.Dict: _dict, ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted, ast.Lambda: _lambda, ast.NamedExpr: _namedexpr, ast.ListComp: _comprehension,
    ast.SetComp: _comprehension, ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension, ast.Await: _await,
    ast.Yield: _await, ast.YieldFrom: _await,
}

# The parts need the names above.
from . import calls, comprehensions, functions, plain_code  # noqa: E402
from .attributes import get_attribute  # noqa: E402
from .python import torch_model  # noqa: E402
from .python.builtins import BUILTINS, is_python_builtin  # noqa: E402
from .subscripts import get_item  # noqa: E402
from .tile import launch, no_value, operands, rebinding  # noqa: E402
from .tile.branches import is_tile_condition  # noqa: E402
from .tile.elements import as_scalar  # noqa: E402
