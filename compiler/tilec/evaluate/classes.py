"""User classes: plain classes, dataclasses, enums, named tuples as far as kernels use them."""
from __future__ import annotations

import ast
from typing import Any

from .evaluator import Evaluator
from .scope import Scope
from .values import MISSING, BoundMethod, Class, Function, Instance, Native, same, unknown

_TRANSPARENT_BASES = {"object", "ABC", "Protocol", "Generic", "NamedTuple", "Enum", "IntEnum", "Exception", "TestCase"}


def define_class(ev: Evaluator, node: ast.ClassDef, scope: Scope) -> Any:
    body = Scope(scope, "class")
    ev.run(node.body, body)
    annotated = body.names.pop("__annotated__", [])
    cls = Class(node.name, body.names)
    _add_bases(ev, cls, node, scope)
    fields = [n for n in annotated if n not in body.names]
    order = [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
    cls.fields = [(n, body.names.get(n), n not in fields) for n in order]
    value: Any = cls
    for decorator in reversed(node.decorator_list):
        value = _decorate_class(ev, decorator, value, scope)
    return value


def _add_bases(ev: Evaluator, cls: Class, node: ast.ClassDef, scope: Scope) -> None:
    bases = []
    for base in node.bases:
        name = ast.unparse(base).split(".")[-1].split("[")[0]
        if name == "NamedTuple":
            cls.is_dataclass = cls.is_tuple = True
        if name in ("Enum", "IntEnum", "StrEnum", "IntFlag"):
            cls.is_enum = True
        value = ev.eval(base, scope)
        if isinstance(value, Class):
            bases.append(value)
            cls.is_dataclass = cls.is_dataclass or value.is_dataclass
            cls.is_tuple = cls.is_tuple or value.is_tuple
            cls.is_enum = cls.is_enum or value.is_enum
        elif name not in _TRANSPARENT_BASES:
            cls.opaque = True
    cls.bases = tuple(bases)


def _decorate_class(ev: Evaluator, decorator: ast.expr, value: Any, scope: Scope) -> Any:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = ast.unparse(target).split(".")[-1]
    if isinstance(value, Class):
        if name == "dataclass":
            value.is_dataclass = True
            _set_hash(value, decorator)
        else:
            value.opaque = True
    return value


def _set_hash(cls: Class, decorator: ast.expr) -> None:
    """``@dataclass`` writes ``__eq__``, and a hash with frozen or unsafe_hash alone."""
    given = {k.arg: k.value for k in decorator.keywords} if isinstance(decorator, ast.Call) else {}
    literal = {name: value.value for name, value in given.items() if isinstance(value, ast.Constant)}
    plain_eq = "eq" not in given
    cls.hashes = any(name in given and literal.get(name) is not False for name in ("frozen", "unsafe_hash")) or None in given or not plain_eq
    cls.compares = not cls.hashes


def all_fields(cls: Class) -> list[tuple[str, Any, bool]]:
    found: dict[str, tuple[str, Any, bool]] = {}
    for base in reversed(cls.bases):
        if isinstance(base, Class):
            found.update({f[0]: f for f in all_fields(base)})
    found.update({f[0]: f for f in cls.fields})
    return list(found.values())


def instantiate_class(ev: Evaluator, cls: Class, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if cls.is_enum:
        return next((m for m in enum_members(ev, cls) if args and same(m.attributes["value"], args[0])), unknown("enum"))
    instance = Instance(cls, {}, cls.opaque, (args, kwargs))
    init = cls.lookup("__init__")
    if isinstance(init, Function):
        ev.call_function(init, [instance, *args], kwargs)
        return instance
    if cls.is_dataclass:
        _init_dataclass(ev, instance, args, kwargs)
        post = cls.lookup("__post_init__")
        if isinstance(post, Function):
            ev.call_function(post, [instance], {})
    elif args or kwargs:
        instance.opaque = True
    return instance


def _init_dataclass(ev: Evaluator, instance: Instance, args: list[Any], kwargs: dict[str, Any]) -> None:
    fields = all_fields(instance.cls)
    for (name, default, has_default), value in zip(fields, [*args, *([MISSING] * len(fields))]):
        if value is not MISSING:
            instance.attributes[name] = value
        elif name in kwargs:
            instance.attributes[name] = kwargs[name]
        elif isinstance(default, FieldDefault):
            instance.attributes[name] = ev.call(default.factory, [], {}) if default.factory is not None else default.value
        else:
            instance.attributes[name] = default if has_default else unknown(name)


class FieldDefault:
    """``dataclasses.field(default=..., default_factory=...)``."""

    def __init__(self, value: Any, factory: Any):
        self.value = value
        self.factory = factory


def instance_attribute(ev: Evaluator, instance: Instance, name: str) -> Any:
    if name in instance.attributes:
        return instance.attributes[name]
    found = instance.cls.lookup(name)
    if found is MISSING:
        if name == "__class__":
            return instance.cls
        return _model_attribute(instance, name)
    return bind_member(ev, instance, found)


def _model_attribute(instance: Instance, name: str) -> Any:
    """What the modelled bases (torch.nn.Module, NamedTuple) give."""
    if name == "_replace" and instance.cls.is_tuple:
        return Native(name, lambda ev, a, k, n: Instance(instance.cls, {**instance.attributes, **k}))
    if name in ("cuda", "to", "eval", "half", "bfloat16", "float", "train", "requires_grad_"):
        from .python.torch_classes import MODULE, derives

        if derives(instance.cls, MODULE):
            return Native(name, lambda ev, a, k, n: instance)
    return unknown(f"attribute {name}")


def as_tuple(value: Any) -> Any:
    """A named tuple's fields as a tuple; other values as they are."""
    if isinstance(value, Instance) and value.cls.is_tuple:
        return tuple(value.attributes.get(name, unknown(name)) for name, _, _ in all_fields(value.cls))
    return value


def enum_members(ev: Evaluator, cls: Class) -> list[Any]:
    names = [n for n, v in cls.namespace.items() if not n.startswith("_") and not isinstance(v, Function)]
    return [class_attribute(ev, cls, n) for n in names]


def bind_member(ev: Evaluator, instance: Any, member: Any) -> Any:
    if isinstance(member, Function):
        if member.kind == "property":
            return ev.call_function(member, [instance], {})
        if member.kind == "staticmethod":
            return member
        if member.kind == "classmethod":
            return BoundMethod(instance.cls if isinstance(instance, Instance) else instance, member)
        return BoundMethod(instance, member)
    return member


def class_attribute(ev: Evaluator, cls: Class, name: str) -> Any:
    found = cls.lookup(name)
    if found is MISSING:
        if name == "apply":
            from .python.torch_classes import FUNCTION, apply_method, derives

            if derives(cls, FUNCTION):
                return apply_method(ev, cls)
        return cls.name if name in ("__name__", "__qualname__") else unknown(f"attribute {name}")
    if isinstance(found, Function) and found.kind == "classmethod":
        return BoundMethod(cls, found)
    if isinstance(found, Instance) and found.cls is cls and cls.is_enum:
        return found
    if cls.is_enum and not isinstance(found, Function):
        member = Instance(cls, {"value": found, "name": name})
        cls.namespace[name] = member
        return member
    return found


