"""Names of a file by Python's scoping rules: every place where a variable is bound or read."""
from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from tilec.records import dataclass
from tilec.source.file import SourceFile
from tilec.source.span import Span

_INSTANCE_NAME = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)")


@dataclass(eq=False)
class Binding:
    """One variable. ``kind``: parameter, function, class, import or variable; ``places``: everywhere it stands, in order."""

    name: str
    scope: Scope
    kind: str = "variable"
    node: ast.AST | None = None  # of the first binding
    definitions: list[Span] = field(default_factory=list)
    found: list[Span] = field(default_factory=list)  # the places as they were found, some perhaps twice
    _places: list[Span] | None = None

    @property
    def places(self) -> list[Span]:
        """Sorted when they are asked for: a file has hundreds of variables, and an edit may change them all."""
        if self._places is None:
            self._places = sorted(dict.fromkeys(self.found), key=Span.start)
        return self._places

    @property
    def is_global(self) -> bool:
        return self.scope.kind == "module"


@dataclass(eq=False)
class Scope:
    """``kind``: module, function, class or comprehension; ``names``: what is bound here."""

    kind: str
    parent: Scope | None
    node: ast.AST
    names: dict[str, Binding] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"

    def lookup(self, name: str) -> Binding | None:
        """The variable a name read here stands for. Class scopes are not seen from functions inside them."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if (first or scope.kind != "class") and name in scope.names:
                return scope.names[name]
            first = first and scope.kind == "comprehension"  # a comprehension in a class body sees the class only in its first iterable; near enough
            scope = scope.parent
        return None


# What happens to names in a statement, in order: (what, ...). Scopes open and close like brackets.
_BIND, _BIND_OUTSIDE, _USE, _DECLARE, _ENTER, _LEAVE, _CALL = range(7)
_Event = tuple[Any, ...]


class _Collector:
    """The events of one top-level statement; they do not depend on the rest of the file."""

    def __init__(self, source: SourceFile):
        self._source = source
        self.events: list[_Event] = []

    def visit(self, node: ast.AST) -> None:
        visitor = _VISITORS.get(type(node))
        if visitor is not None:
            visitor(self, node)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    def _each(self, nodes: Any) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _scope(self, kind: str, node: ast.AST) -> None:
        self.events.append((_ENTER, kind, node))

    def _bind(self, name: str, span: Span, kind: str, node: ast.AST) -> None:
        self.events.append((_BIND, name, span, kind, node))

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.events.append((_USE, node.id, self._source.span(node)))
        else:
            self._bind(node.id, self._source.span(node), "variable", node)

    def _named_expression(self, node: ast.NamedExpr) -> None:
        self.events.append((_BIND_OUTSIDE, node.target.id, self._source.span(node.target), "variable", node.target))
        self.visit(node.value)

    def _declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        text, line = self._source.lines[node.lineno - 1], node.lineno
        for name in node.names:
            match = re.search(rf"\b{re.escape(name)}\b", text)
            place = Span(self._source.path, line, match.start() + 1, line, match.end() + 1) if match else None
            self.events.append((_DECLARE, name, "global" if isinstance(node, ast.Global) else "nonlocal", place))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._bind(node.name, self._source.name_span(node), "function", node)
        self._each(node.decorator_list)
        self._outside_of(node.args)
        self._each([node.returns])
        self._scope("function", node)
        self._parameters(node.args)
        self._each(node.body)
        self.events.append((_LEAVE,))

    def _lambda(self, node: ast.Lambda) -> None:
        self._outside_of(node.args)
        self._scope("function", node)
        self._parameters(node.args)
        self.visit(node.body)
        self.events.append((_LEAVE,))

    def _class(self, node: ast.ClassDef) -> None:
        self._bind(node.name, self._source.name_span(node), "class", node)
        self._each((*node.decorator_list, *node.bases, *(k.value for k in node.keywords)))
        self._scope("class", node)
        self._each(node.body)
        self.events.append((_LEAVE,))

    def _outside_of(self, args: ast.arguments) -> None:
        """Defaults and annotations belong to the scope around the function."""
        self._each((*args.defaults, *args.kw_defaults))
        self._each(a.annotation for a in _all_of(args))

    def _parameters(self, args: ast.arguments) -> None:
        for a in _all_of(args):
            start = self._source.span(a)
            self._bind(a.arg, Span(start.path, start.line, start.column, start.line, start.column + len(a.arg)), "parameter", a)

    def _comprehension(self, node: Any) -> None:
        self.visit(node.generators[0].iter)
        self._scope("comprehension", node)
        for index, generator in enumerate(node.generators):
            if index:
                self.visit(generator.iter)
            self.visit(generator.target)
            self._each(generator.ifs)
        self._each(getattr(node, name, None) for name in ("elt", "key", "value"))
        self.events.append((_LEAVE,))

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                continue
            name = alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)
            whole = self._source.span(alias)
            if alias.asname:
                span = Span(whole.path, whole.end_line, whole.end_column - len(name), whole.end_line, whole.end_column)
            else:
                span = Span(whole.path, whole.line, whole.column, whole.line, whole.column + len(name))
            self._bind(name, span, "import", alias)

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            match = re.search(rf"\bas\s+({re.escape(node.name)})\b", self._source.lines[node.lineno - 1])
            if match:
                self._bind(node.name, Span(self._source.path, node.lineno, match.start(1) + 1, node.lineno, match.end(1) + 1), "variable", node)
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and any(k.arg for k in node.keywords):
            self.events.append((_CALL, node))
        for child in ast.iter_child_nodes(node):
            self.visit(child)


_VISITORS: dict[type, Any] = {
    ast.Name: _Collector._name, ast.NamedExpr: _Collector._named_expression, ast.Global: _Collector._declaration, ast.Nonlocal: _Collector._declaration,
    ast.FunctionDef: _Collector._function, ast.AsyncFunctionDef: _Collector._function, ast.Lambda: _Collector._lambda, ast.ClassDef: _Collector._class,
    ast.Import: _Collector._import, ast.ImportFrom: _Collector._import, ast.ExceptHandler: _Collector._handler, ast.Call: _Collector._call,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _Collector._comprehension),
}


def _all_of(args: ast.arguments) -> Iterator[ast.arg]:
    yield from (*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs, *([args.kwarg] if args.kwarg else []))


def _events(source: SourceFile, statement: ast.stmt) -> list[_Event]:
    collector = _Collector(source)
    collector.visit(statement)
    return collector.events


class Names:
    """The variables of a file. What a statement does with names is kept as long as an edit does not touch it."""

    def __init__(self, source: SourceFile):
        self._source = source
        self._uses: list[tuple[Scope, str, Span]] = []
        self._calls: list[tuple[Scope, ast.Call]] = []
        self._functions: dict[ast.AST, Scope] = {}
        self._scopes: list[Scope] = []
        self.module = self._enter("module", None, source.tree)
        for statement in source.tree.body:
            self._replay(source.remembered("name events", statement, lambda s=statement: _events(source, s)))  # type: ignore[misc]
        self.bindings: list[Binding] = []
        self._resolve()

    def at(self, line: int, column: int) -> Binding | None:
        """The variable whose name stands at a place (from 1); the end of a name counts."""
        best, start = None, 0
        for binding in self.bindings:
            for place in binding.found:
                if place.line == line and start < place.column <= column <= place.end_column:
                    best, start = binding, place.column
        return best

    def span_at(self, line: int, column: int) -> Span | None:
        """The place of the name itself."""
        binding = self.at(line, column)
        return next((p for p in binding.places if p.line == line and p.column <= column <= p.end_column), None) if binding is not None else None

    def scope_at(self, line: int) -> Scope:
        """The innermost function that a line belongs to, else the module."""
        best, size = self.module, 1 << 30
        for node, scope in self._functions.items():
            first, last = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
            if first < line <= last and last - first < size and not isinstance(node, ast.Lambda):
                best, size = scope, last - first
        return best

    # -- binding ---------------------------------------------------------------------------------------------------------
    def _replay(self, events: list[_Event]) -> None:
        scope = self.module
        for event in events:
            what = event[0]
            if what == _USE:
                self._uses.append((scope, event[1], event[2]))
            elif what == _BIND:
                self._bind(scope, *event[1:])
            elif what == _ENTER:
                scope = self._enter(event[1], scope, event[2])
            elif what == _LEAVE:
                assert scope.parent is not None
                scope = scope.parent
            elif what == _CALL:
                self._calls.append((scope, event[1]))
            elif what == _BIND_OUTSIDE:
                target = scope
                while target.kind == "comprehension" and target.parent is not None:
                    target = target.parent
                self._bind(target, *event[1:])
            else:
                scope.elsewhere[event[1]] = event[2]
                if event[3] is not None:
                    self._uses.append((scope, event[1], event[3]))

    def _bind(self, scope: Scope, name: str, span: Span, kind: str, node: ast.AST) -> None:
        target = self._target(scope, name) if scope.elsewhere else scope
        found = target.names.get(name)
        if found is None:
            found = target.names[name] = Binding(name, target, kind, node)
        found.definitions.append(span)
        found.found.append(span)

    def _target(self, scope: Scope, name: str) -> Scope:
        if scope.elsewhere.get(name) == "global":
            return self.module
        if scope.elsewhere.get(name) == "nonlocal":
            outer = scope.parent
            while outer is not None and not (outer.kind == "function" and name in outer.names):
                outer = outer.parent
            return outer or scope
        return scope

    def _enter(self, kind: str, parent: Scope | None, node: ast.AST) -> Scope:
        made = Scope(kind, parent, node)
        self._scopes.append(made)
        if kind == "function":
            self._functions[node] = made
        return made

    # -- resolving ---------------------------------------------------------------------------------------------------------
    def _resolve(self) -> None:
        for scope, name, span in self._uses:
            binding = scope.lookup(name)
            if binding is not None:
                binding.found.append(span)
        for scope, call in self._calls:
            self._keyword_places(scope, call)
        self._directive_places()
        for scope in self._scopes:
            self.bindings += scope.names.values()

    def _keyword_places(self, scope: Scope, call: ast.Call) -> None:
        """``f(block_M=64)``: the keyword is the parameter of the function of this file."""
        function = scope.lookup(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is None or function.kind != "function" or len(function.definitions) != 1 or function.node not in self._functions:
            return
        parameters = self._functions[function.node].names
        for keyword in call.keywords:
            binding = parameters.get(keyword.arg) if keyword.arg else None
            if binding is not None and binding.kind == "parameter" and keyword.arg:
                start = self._source.span(keyword)
                binding.found.append(Span(start.path, start.line, start.column, start.line, start.column + len(keyword.arg)))

    def _directive_places(self) -> None:
        """``# tile-lsp: instance block_M=64`` above a kernel names its parameters."""
        for directive in self._source.directives:
            if directive.kind != "instance":
                continue
            function = self._function_below(directive.line)
            if function is None:
                continue
            text = self._source.lines[directive.line - 1]
            for match in _INSTANCE_NAME.finditer(text, directive.column - 1):
                binding = self._functions[function].names.get(match.group(1))
                if binding is not None and binding.kind == "parameter":
                    binding.found.append(Span(self._source.path, directive.line, match.start(1) + 1, directive.line, match.end(1) + 1))

    def _function_below(self, line: int) -> ast.AST | None:
        following = [f for f in self._functions if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
                     and min([f.lineno, *(d.lineno for d in f.decorator_list)]) > line]
        return min(following, key=lambda f: f.lineno, default=None)  # type: ignore[attr-defined]
