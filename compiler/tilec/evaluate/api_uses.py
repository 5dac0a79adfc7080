"""Where a file uses names of TileLang: found in the syntax alone, so in code that never runs as well."""
from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from ..source.file import SourceFile
from ..source.span import Span
from .problem import ApiCall, ApiUse
from .scope import Scope
from .surroundings import expects_failure, must_raise
from .values import Api, Module

_GUARDS = ("hasattr", "getattr", "version", "TYPE_CHECKING")
_CAUGHT = {"AttributeError", "ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
API_MODULES = ("tilelang", "tilelang.language")


def find_api_uses(source: SourceFile, scope: Scope | None) -> list[ApiUse]:
    """Uses of ``tilelang`` and ``tilelang.language``, reached through aliases, re-exports or imports of single names.

    Code that asks first (``hasattr``, a version test, ``try``/``except AttributeError``) is left out.
    """
    return [use for statement in source.tree.body for use in _uses_of(source, scope, statement)]


@dataclass
class _Seen:
    """The uses in one top-level statement, as they are while the module's names mean ``meanings``."""

    uses: list[ApiUse] = field(default_factory=list)
    meanings: dict[str, Any] = field(default_factory=dict)


def _uses_of(source: SourceFile, scope: Scope | None, statement: ast.stmt) -> list[ApiUse]:
    seen = source.remembered("api uses", statement, _Seen)
    names = scope.names if scope is not None else {}
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
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.statement(child)
            elif isinstance(child, (ast.ExceptHandler, ast.match_case, ast.withitem, ast.keyword, ast.arguments, ast.arg, ast.comprehension)):
                self._children(child)
            elif isinstance(child, ast.expr):
                self.expression(child, None)

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
            if alias.name == "*" or (node.module == "tilelang" and alias.name == "language"):
                continue
            span = self.source.span(alias)
            name_span = Span(span.path, span.line, span.column, span.line, span.column + len(alias.name))
            self.uses.append(ApiUse(node.module, alias.name, name_span, name_span, alias.name, imported=True))

    # -- expressions -----------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr, call: ast.Call | None) -> None:
        if isinstance(node, ast.Call):
            self.expression(node.func, node)
            for argument in (*node.args, *(k.value for k in node.keywords)):
                self.expression(argument, None)
            return
        if isinstance(node, ast.Attribute):
            base = self._module_of(node.value)
            if base in API_MODULES and isinstance(node.ctx, ast.Load):
                if not (base == "tilelang" and node.attr == "language"):
                    self._add(base, node.attr, node, self.source.attribute_span(node), call)
                return
            self.expression(node.value, None)
            return
        if isinstance(node, ast.Name):
            value = self._value(node.id)
            if isinstance(value, Api) and value.module in API_MODULES and isinstance(node.ctx, ast.Load) and call is not None:
                self._add(value.module, value.name, node, self.source.span(node), call, imported=True)
            return
        if isinstance(node, ast.IfExp) and self._asks_first(node.test):
            return
        if isinstance(node, ast.Lambda):
            self.locals.append({a.arg: None for a in node.args.args})
            self.expression(node.body, None)
            self.locals.pop()
            return
        self._children(node)

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
        if isinstance(node, ast.Attribute) and node.attr == "language" and self._module_of(node.value) == "tilelang":
            return "tilelang.language"
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
                is_language = item.module == "tilelang" and alias.name == "language"
                names[alias.asname or alias.name] = Module("tilelang.language") if is_language else None
        elif isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
            names.setdefault(item.id, None)
        stack.extend(ast.iter_child_nodes(item))
    return names
