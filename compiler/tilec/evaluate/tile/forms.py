"""The form of each argument of a call, for the check of kinds (``tilec.language.kinds``)."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import BARRIER, CLUSTER_BARRIER, VAR, Buffer, Region
from ...ir.expr import Const, Expr, Load, Unknown, Var
from ...source.span import Span
from ..by_class import ByClass
from ..evaluator import Evaluator
from ..values import Api, BoundMethod, DType, Function, HostTensor, LaunchValue, LoopValue, Native, Partial, Reference, plain

Form = tuple["str | None", "str | None"]  # the form, and the value as text where a message or choice needs it
_TYPES = {"int": "int", "float": "float", "bool": "bool"}


class ApiCallForms:
    """One call of a name: the forms of its arguments, and where they are written."""

    __slots__ = ("module", "name", "positional", "keywords", "configs", "node", "source", "caller")

    def __init__(self, function: Api, positional: tuple[Form, ...], keywords: tuple[tuple[str, Form], ...], node: ast.Call, ev: Evaluator):
        self.configs: tuple[tuple[str, str], ...] = ()  # the keys of pass_configs: ("member", name) or ("text", key)
        self.module = function.module
        self.name = function.name
        self.positional = positional
        self.keywords = keywords
        self.node = node
        self.source = ev.source
        self.caller = ev.callers[-1] if ev.callers else None

    def span(self, argument: int | str) -> Span:
        """The place of an argument by position or keyword, else of the call."""
        place: ast.AST = self.node
        if isinstance(argument, int):
            plain_arguments = len(self.node.args) == len(self.positional) and not any(isinstance(a, ast.Starred) for a in self.node.args)
            if plain_arguments:
                place = self.node.args[argument]
        else:
            place = next((k.value for k in self.node.keywords if k.arg == argument), self.node)
        return self.source.span(place, self.caller)

    def config_span(self, index: int) -> Span:
        """The place of a key of pass_configs."""
        given = next((k.value for k in self.node.keywords if k.arg == "pass_configs"), self.node.args[0] if self.node.args else self.node)
        keys = given.keys if isinstance(given, ast.Dict) else []
        key = keys[index] if len(keys) == len(self.configs) else None
        return self.source.span(key or given, self.caller)


def record_call(ev: Evaluator, function: Api, args: list[Any], kwargs: dict[str, Any], node: ast.Call | None) -> None:
    """Remember a call's forms. Calls under unknown conditions may never happen and are left out."""
    if node is None or (ev.builder is not None and not ev.reporting) or (ev.builder is None and ev.surroundings.failing):
        return
    nodes = node.args if len(node.args) == len(args) else [None] * len(args)
    # a call that gives None here is one whose value is not modelled
    positional = tuple((None, None) if a is None and isinstance(n, ast.Call) else form_of(a) for a, n in zip(args, nodes))
    keywords = tuple((k, form_of(v)) for k, v in kwargs.items())
    key = (id(node), function, positional, keywords)
    if key not in ev.api_calls:
        made = ev.api_calls[key] = ApiCallForms(function, positional, keywords, node, ev)
        configs = kwargs.get("pass_configs") or (args[0] if function.name == "annotate_pass_configs" and args else None)
        if isinstance(configs, dict):
            made.configs = tuple(_config_key(k) for k in configs)


def _config_key(key: Any) -> tuple[str, str]:
    if isinstance(key, Api) and key.module.endswith("PassConfigKey"):
        return "member", key.name
    return ("text", key) if isinstance(key, str) else ("", "")


def form_of(value: Any) -> Form:
    if isinstance(value, Const):
        value = plain(value)
    if isinstance(value, Unknown):
        return None, None
    if isinstance(value, Expr):
        return _expression(value), None
    if isinstance(value, Buffer):
        return ("var" if value.scope == VAR else "barrier" if value.scope in (BARRIER, CLUSTER_BARRIER) else "buffer"), None
    if isinstance(value, bool):
        return "bool", str(value)
    if isinstance(value, (int, float)):
        return ("int" if isinstance(value, int) else "float"), str(value)
    if isinstance(value, str):
        return "str", value
    return _object(value), None


def _expression(value: Expr) -> str:
    if isinstance(value, Load):
        return "barrier" if value.buffer.scope in (BARRIER, CLUSTER_BARRIER) else "element"
    if value.dtype == "handle":
        return "pointer"
    return "let" if isinstance(value, Var) and value.kind == "let" else "scalar"


def _object(value: Any) -> str | None:
    if value is None:
        return "none"
    if isinstance(value, Native):
        return "dtype" if value.name in _TYPES else "function"
    return _OBJECTS[value.__class__]


from . import layouts  # noqa: E402  (they need the names above)

_OBJECTS = ByClass((
    (Region, "region"), (Reference, "element"), ((list, tuple, range), "sequence"), (dict, "dict"), (DType, "dtype"),
    ((Function, Partial, BoundMethod), "function"), ((LaunchValue, LoopValue), "frame"), (layouts.LayoutValue, "layout"),
    (HostTensor, "tensor"), ((set, frozenset), "set")))
