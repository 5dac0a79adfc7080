"""Python's built-in functions, on values of the evaluator."""
from __future__ import annotations

import builtins
from pathlib import PurePath
from typing import Any

from ...ir.buffer import Buffer, Region
from ...ir.expr import Expr
from ..evaluator import Evaluator
from ..sizes import are_sizes
from ..sizes import call as size_call
from ..values import MISSING, Class, DType, HostTensor, Instance, Native, is_device, is_unknown, plain, unknown

MAX_RANGE = 100_000


def is_python_builtin(name: str) -> bool:
    return hasattr(builtins, name) or name in ("__file__", "__name__", "__doc__", "__builtins__", "WindowsError", "reveal_type")


def _known(values: Any) -> bool:
    """Whether everything in a host value is known on the host."""
    if isinstance(values, (list, tuple, set, frozenset)):
        return all(_known(v) for v in values)
    if isinstance(values, dict):
        return all(_known(v) for v in values.values())
    return isinstance(values, (int, float, str, bytes, bool, complex, range, slice, PurePath)) or values is None


def host(name: str, python: Any) -> Native:
    """A built-in that is computed when all its arguments are known."""

    def call(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
        args = [plain(a) for a in args]
        if not _known(args) or not _known(kwargs):
            if are_sizes(*args):
                return size_call(name, args)
            if any(is_device(a) or isinstance(a, (Buffer, Region)) for a in args) or (name in _COMPARING and _holds_device(args[:1])):
                return _device_builtin(ev, name, args, node)
            return unknown(name)
        try:
            return python(*args, **kwargs)
        except Exception:
            return unknown(name)

    return Native(name, call)


_ADVICE = {"max": "T.max", "min": "T.min", "abs": "T.abs", "round": "T.round", "float": 'T.cast(x, "float32")',
           "int": 'T.cast(x, "int32")', "sum": "T.reduce_sum", "len": "the shape", "pow": "T.pow", "bool": "a comparison",
           "divmod": "// and %", "any": "| between the conditions", "all": "& between the conditions", "sorted": "a sort on the device"}


_COMPARING = ("max", "min", "sorted")  # they ask for the truth of a comparison of the items


def _holds_device(args: list[Any]) -> bool:
    """Whether a list's items are device values, one at least."""
    return bool(args) and isinstance(args[0], (list, tuple)) and len(args[0]) > 1 and any(is_device(i) for i in args[0])


def _device_builtin(ev: Evaluator, name: str, args: list[Any], node: Any) -> Any:
    if ev.builder is not None and node is not None and name in _ADVICE:
        kind = "a buffer" if any(isinstance(a, (Buffer, Region)) for a in args) else "a device value"
        ev.problem("python-builtin", f"Python's {name}() is applied to {kind}, which it cannot compute; use {_ADVICE[name]}", node)
    return unknown(name)


def _abs(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    from ..tile.elements import as_scalar

    value = as_scalar(args[0]) if args else unknown("abs")
    if isinstance(value, Expr) and not is_unknown(value):
        from ...ir import build

        _device_builtin(ev, "abs", args, node)
        return build.call("abs", (value,), value.dtype, ev.span(node) if node else None)
    return host("abs", abs).call(ev, args, kwargs, node)


def _len(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    value = args[0] if args else unknown("len")
    if isinstance(value, (list, tuple, dict, str, range, set, bytes)):
        return len(value)
    if isinstance(value, HostTensor):
        return value.shape[0] if value.shape else unknown("len")
    if isinstance(value, (Buffer, Region)) or is_device(value):
        return _device_builtin(ev, "len", args, node)
    return unknown("len")


def _isinstance(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    if len(args) != 2 or is_unknown(args[0]):
        return unknown("isinstance")
    kinds = args[1] if isinstance(args[1], tuple) else (args[1],)
    answers = [_is_instance(args[0], k) for k in kinds]
    if True in answers:
        return True
    return unknown("isinstance") if None in answers else False


def _is_instance(value: Any, kind: Any) -> bool | None:
    names = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict, "set": set}
    if isinstance(kind, Native) and kind.name in names:
        return isinstance(value, names[kind.name])
    if isinstance(kind, Class):
        if isinstance(value, Instance):
            return None if value.opaque else _derives(value.cls, kind)
        return False if isinstance(value, (int, float, str, list, tuple, dict)) else None
    if isinstance(value, (int, float, str, bool, list, tuple, dict)) and isinstance(kind, (DType, Native)):
        return None
    return None


def _derives(cls: Class, kind: Class) -> bool:
    return cls is kind or any(isinstance(b, Class) and _derives(b, kind) for b in cls.bases)


def _getattr(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    if len(args) < 2 or not isinstance(args[1], str):
        return unknown("getattr")
    from ..attributes import get_attribute

    value = get_attribute(ev, args[0], args[1], node)
    return args[2] if is_unknown(value) and len(args) > 2 and isinstance(args[0], Instance) and not args[0].opaque else value


def _setattr(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    if len(args) == 3 and isinstance(args[0], Instance) and isinstance(args[1], str):
        args[0].attributes[args[1]] = args[2]
    return None


def _sequence(make: Any) -> Any:
    def call(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
        if not args:
            return make(())
        value = args[0]
        if isinstance(value, range) and len(value) > MAX_RANGE:
            return unknown("sequence")
        if isinstance(value, (list, tuple, range, set, frozenset, str, dict)):
            try:
                return make(value)
            except TypeError:
                return unknown("sequence")
        if ev.builder is not None and (isinstance(value, (Buffer, Region)) or is_device(value)) and node is not None:
            ev.problem("python-iterate-device", "a device value cannot be iterated while the kernel is built", node)
        return unknown("sequence")

    return call


def _zip(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    items = [_items(ev, a, node) for a in args]
    return unknown("zip") if any(i is None for i in items) else list(zip(*items))  # type: ignore[arg-type]


def _items(ev: Evaluator, value: Any, node: Any) -> Any:
    return loops.iterate_host(ev, value, node)


def _enumerate(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    items = _items(ev, args[0], node) if args else None
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return unknown("enumerate") if items is None or not isinstance(start, int) else list(enumerate(items, start))


def _reversed(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    value = args[0] if args else None
    return list(reversed(value)) if isinstance(value, (list, tuple, range)) else unknown("reversed")


def _map(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    items = _items(ev, args[1], node) if len(args) == 2 else None
    return unknown("map") if items is None else [ev.call(args[0], [i], {}) for i in items]


def _filter(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    from ..expressions import truth

    items = _items(ev, args[1], node) if len(args) == 2 else None
    if items is None:
        return unknown("filter")
    kept = [(i, truth(ev, i if args[0] is None else ev.call(args[0], [i], {}))) for i in items]
    return unknown("filter") if any(k is None for _, k in kept) else [i for i, k in kept if k]


def _quantifier(name: str) -> Any:
    def call(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
        from ..expressions import truth

        value = args[0] if args else None
        if not isinstance(value, (list, tuple)):
            return unknown(name)
        truths = [truth(ev, v) for v in value]
        decisive = name == "any"
        first = next((i for i, v in enumerate(value) if is_device(v)), None)
        if first is not None and decisive not in truths[:first]:
            _device_builtin(ev, name, args, node)
        if decisive in truths:
            return decisive
        return unknown(name) if None in truths else not decisive

    return call


def _range(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    args = [plain(a) for a in args]
    if args and all(isinstance(a, int) for a in args):
        try:
            return range(*args)
        except (TypeError, ValueError):
            return unknown("range")
    return unknown("range")


def _print(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    """Python's own: it shows values, those of the device by their names too, while the kernel is made, and leaves nothing in it."""
    return None


def _divmod(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    import ast

    from ..expressions import binary_value

    if len(args) != 2:
        return unknown("divmod")
    if any(is_device(a) for a in args):
        _device_builtin(ev, "divmod", args, node)
    return (binary_value(ev, ast.FloorDiv, args[0], args[1], node), binary_value(ev, ast.Mod, args[0], args[1], node))


def _type(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    value = args[0] if len(args) == 1 else None
    if isinstance(value, Instance):
        return value.cls
    name = type(value).__name__
    return BUILTINS.get(name, unknown("type")) if isinstance(value, (int, float, str, list, tuple, dict, bool)) else unknown("type")


def _hasattr(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    if len(args) == 2 and isinstance(args[0], Instance) and isinstance(args[1], str) and not args[0].opaque:
        return args[1] in args[0].attributes or args[0].cls.lookup(args[1]) is not MISSING
    return unknown("hasattr")


def _dict(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    try:
        return dict(*args, **kwargs)
    except (TypeError, ValueError):
        return unknown("dict")


def _iter(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    return args[0] if args else unknown("iter")


def _sum(ev: Evaluator, args: list[Any], kwargs: Any, node: Any) -> Any:
    import ast

    from ..expressions import binary_value

    if args and isinstance(args[0], (list, tuple)):
        total: Any = args[1] if len(args) > 1 else 0
        for item in args[0]:
            total = binary_value(ev, ast.Add, total, item, node)
        return total
    return host("sum", sum).call(ev, args, kwargs, node)


BUILTINS: dict[str, Any] = {
    **{n: host(n, getattr(builtins, n)) for n in ("max", "min", "int", "float", "str", "bool", "round", "sorted", "ord", "chr", "repr",
                                                  "pow", "hex", "bin", "hash", "format", "bytes", "complex")},
    "abs": Native("abs", _abs), "len": Native("len", _len), "isinstance": Native("isinstance", _isinstance),
    "getattr": Native("getattr", _getattr), "setattr": Native("setattr", _setattr), "hasattr": Native("hasattr", _hasattr),
    "list": Native("list", _sequence(list)), "tuple": Native("tuple", _sequence(tuple)), "set": Native("set", _sequence(set)),
    "frozenset": Native("frozenset", _sequence(frozenset)), "zip": Native("zip", _zip), "enumerate": Native("enumerate", _enumerate),
    "reversed": Native("reversed", _reversed), "map": Native("map", _map), "filter": Native("filter", _filter),
    "all": Native("all", _quantifier("all")), "any": Native("any", _quantifier("any")), "range": Native("range", _range),
    "print": Native("print", _print), "divmod": Native("divmod", _divmod), "type": Native("type", _type), "dict": Native("dict", _dict),
    "slice": Native("slice", lambda ev, a, k, n: slice(*map(plain, a)) if 0 < len(a) <= 3 else unknown("slice")),
    "iter": Native("iter", _iter), "sum": Native("sum", _sum), "__name__": "__main__", "__file__": unknown("__file__"),
    "NotImplemented": unknown("NotImplemented"), "Ellipsis": ..., "object": Class("object", {}),
    "staticmethod": Native("staticmethod", lambda ev, a, k, n: _mark(a, "staticmethod")),
    "classmethod": Native("classmethod", lambda ev, a, k, n: _mark(a, "classmethod")),
    "property": Native("property", lambda ev, a, k, n: _mark(a, "property")),
}


def _mark(args: list[Any], kind: str) -> Any:
    from ..values import Function

    if args and isinstance(args[0], Function):
        args[0].kind = kind if args[0].kind == "plain" else args[0].kind
        return args[0]
    return unknown(kind)

from ..tile import loops  # noqa: E402  (they need the names above)
