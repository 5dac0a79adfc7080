"""Where a file uses names of TileLang: found in the syntax alone, so in code that never runs as well."""
from __future__ import annotations

import ast
from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.file import SourceFile
from ..source.span import Span
from .blocks import statements_of
from .problem import ApiCall, ApiUse
from .scope import Scope
from .surroundings import expects_failure, must_raise
from .values import Api, Module

_GUARDS = ("hasattr", "getattr", "version", "TYPE_CHECKING")
_CAUGHT = {"AttributeError", "ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_PARTS = (ast.ExceptHandler, ast.match_case, ast.withitem, ast.keyword, ast.arguments, ast.arg, ast.comprehension)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_WITHOUT_USES = frozenset(("ctx", "op"))
_PARTS_OF_TILELANG = {"language": "tilelang.language", "testing": "tilelang.testing", "profiler": "tilelang.profiler", "layout": "tilelang.layout"}
API_MODULES = ("tilelang", *_PARTS_OF_TILELANG.values())


def find_api_uses(source: SourceFile, scope: Scope | None) -> list[ApiUse]:
    """Uses of ``tilelang`` and ``tilelang.language``, reached through aliases, re-exports or imports of single names.

    Code that asks first (``hasattr``, a version test, ``try``/``except AttributeError``) is left out.
    """
    names = scope.names if scope is not None else {}
    telling = {"tilelang", *(name for name, value in names.items() if isinstance(value, (Module, Api)))}
    return [use for s in source.tree.body if not telling.isdisjoint(source.words(s)) for use in _uses_of(source, names, s)]


@dataclass
class _Seen:
    """The uses in one top-level statement, as they are while the module's names mean ``meanings``."""

    uses: list[ApiUse] = field(default_factory=list)
    meanings: dict[str, Any] = field(default_factory=dict)


def _uses_of(source: SourceFile, names: dict[str, Any], statement: ast.stmt) -> list[ApiUse]:
    seen = source.remembered("api uses", statement, _Seen)
    if not seen.meanings or any(_meaning(names.get(n)) != meaning for n, meaning in seen.meanings.items()):
        finder = _Finder(source, names)
        finder.statement(statement)
        seen.uses, seen.meanings = finder.uses, finder.meanings
    return seen.uses


def _meaning(value: Any) -> Any:
    """What of a name's value decides about uses."""
    if isinstance(value, Module):
        return "module", value.name
    return ("api", value.module, value.name) if isinstance(value, Api) else None


class _Finder:
    def __init__(self, source: SourceFile, names: dict[str, Any]):
        self.source = source
        self.names = names  # the module's
        self.meanings: dict[str, Any] = {"": None}  # of the module's names that were looked up
        self.uses: list[ApiUse] = []
        self.locals: list[dict[str, Any]] = []  # per enclosing function: local names, with their value where an import gives one

    # -- statements ----------------------------------------------------------------------------------------------
    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If) and self._asks_first(node.test):
            return
        if isinstance(node, ast.Try) and (any(_catches(h) for h in node.handlers) or must_raise(node)):
            self.block(node.orelse)
            self.block(node.finalbody)
            return
        if isinstance(node, (ast.With, ast.AsyncWith)) and any(expects_failure(i.context_expr) for i in node.items):
            return
        if isinstance(node, ast.ImportFrom):
            self._import_from(node)
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(node)
            return
        self._children(node)

    def _asks_first(self, test: ast.expr) -> bool:
        text = self.source.segment(test)
        return any(word in text for word in _GUARDS)

    def _children(self, node: ast.AST) -> None:
        for name in node._fields:
            value = getattr(node, name, None)
            if value.__class__ is list:
                for child in value:
                    self._child(child)
            elif name not in _WITHOUT_USES:
                self._child(value)

    def _child(self, child: Any) -> None:
        if isinstance(child, ast.expr):
            self.expression(child, None)
        elif isinstance(child, ast.stmt):
            self.statement(child)
        elif isinstance(child, _PARTS):
            self._children(child)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.expression(decorator, None)
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
            self.expression(part, None)
        names = _local_names(node)
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        for argument in arguments:
            if argument.annotation is not None:
                self.expression(argument.annotation, None)
        self.locals.append(names)
        self.block(node.body)
        self.locals.pop()

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or node.module not in API_MODULES:
            return
        for alias in node.names:
            if alias.name == "*" or (node.module == "tilelang" and alias.name in _PARTS_OF_TILELANG):
                continue
            span = self.source.span(alias)
            name_span = Span(span.path, span.line, span.column, span.line, span.column + len(alias.name))
            self.uses.append(ApiUse(node.module, alias.name, name_span, name_span, alias.name, imported=True))

    # -- expressions -----------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr, call: ast.Call | None) -> None:
        kind = type(node)
        if kind is ast.Constant:
            return
        if kind is ast.Name:
            self._name(node, call)  # type: ignore[arg-type]
        elif kind is ast.Call:
            self.expression(node.func, node)  # type: ignore[attr-defined, arg-type]
            for argument in (*node.args, *(k.value for k in node.keywords)):  # type: ignore[attr-defined]
                self.expression(argument, None)
        elif kind is ast.Attribute:
            self._attribute(node, call)  # type: ignore[arg-type]
        elif isinstance(node, ast.Lambda):
            self._inside({a.arg: None for a in node.args.args}, [node.body])
        elif isinstance(node, _COMPREHENSIONS):
            self._inside({n: None for g in node.generators for n in _target_names(g.target)}, [node])
        elif not (isinstance(node, ast.IfExp) and self._asks_first(node.test)):
            if isinstance(node, ast.NamedExpr) and self.locals:
                self.locals[-1].setdefault(node.target.id, None)
            self._children(node)

    def _name(self, node: ast.Name, call: ast.Call | None) -> None:
        value = self._value(node.id)
        if isinstance(value, Api) and value.module in API_MODULES and isinstance(node.ctx, ast.Load) and call is not None:
            self._add(value.module, value.name, node, self.source.span(node), call, imported=True)

    def _attribute(self, node: ast.Attribute, call: ast.Call | None) -> None:
        base = self._module_of(node.value)
        if base not in API_MODULES or not isinstance(node.ctx, ast.Load):
            self.expression(node.value, None)
        elif not (base == "tilelang" and node.attr in _PARTS_OF_TILELANG):
            self._add(base, node.attr, node, self.source.attribute_span(node), call)

    def _inside(self, names: dict[str, Any], parts: list[ast.expr]) -> None:
        """Look at expressions that have names of their own."""
        self.locals.append(names)
        for part in parts:
            if isinstance(part, _COMPREHENSIONS):
                self._children(part)
            else:
                self.expression(part, None)
        self.locals.pop()

    def _add(self, module: str, name: str, node: ast.expr, name_span: Span, call: ast.Call | None, imported: bool = False) -> None:
        span = self.source.span(node)
        self.uses.append(ApiUse(module, name, span, name_span, self.source.segment(node), imported, self._call(call)))

    def _call(self, node: ast.Call | None) -> ApiCall | None:
        if node is None:
            return None
        star = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        keywords = tuple((k.arg, self._keyword_span(k)) for k in node.keywords if k.arg is not None)
        return ApiCall(len(node.args), keywords, star, self.source.span(node), tuple(self.source.span(a) for a in node.args))

    def _keyword_span(self, keyword: ast.keyword) -> Span:
        """Just the keyword's name."""
        span = self.source.span(keyword)
        return Span(span.path, span.line, span.column, span.line, span.column + len(keyword.arg or ""))

    # -- names -----------------------------------------------------------------------------------------------------
    def _value(self, name: str) -> Any:
        for names in reversed(self.locals):
            if name in names:
                return names[name]
        value = self.names.get(name)
        self.meanings[name] = _meaning(value)
        return value

    def _module_of(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            value = self._value(node.id)
            return value.name if isinstance(value, Module) else None
        if isinstance(node, ast.Attribute) and node.attr in _PARTS_OF_TILELANG and self._module_of(node.value) == "tilelang":
            return _PARTS_OF_TILELANG[node.attr]
        return None


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(n).split(".")[-1] in _CAUGHT for n in names)


def _local_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Any]:
    """Names a function binds itself; those an import of TileLang binds have that module as their value."""
    args = node.args
    names: dict[str, Any] = {a.arg: None for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    for extra in (args.vararg, args.kwarg):
        if extra is not None:
            names[extra.arg] = None
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[item.name] = None
            continue
        if isinstance(item, ast.Import):
            for alias in item.names:
                bound = alias.asname or alias.name.split(".")[0]
                module = alias.name if alias.asname else bound
                names[bound] = Module(module) if module in API_MODULES else None
        elif isinstance(item, ast.ImportFrom):
            for alias in item.names:
                part = _PARTS_OF_TILELANG.get(alias.name) if item.module == "tilelang" else None
                names[alias.asname or alias.name] = Module(part) if part is not None else None
        else:
            for target in _targets(item):
                for name in _target_names(target):
                    names.setdefault(name, None)
            stack.extend(statements_of(item))
    return names


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement itself assigns to."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [i.optional_vars for i in node.items if i.optional_vars is not None]
    return []


def _target_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in _target_names(element)]
    return _target_names(target.value) if isinstance(target, ast.Starred) else []
