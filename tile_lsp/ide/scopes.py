"""Names of a file by Python's scoping rules: every place where a variable is bound or read."""
from __future__ import annotations

import ast
import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tilec.source.file import SourceFile
from tilec.source.span import Span

_INSTANCE_NAME = re.compile(r"\b([A-Za-z_]\w*)\s*=(?!=)")


@dataclass(eq=False)
class Binding:
    """One variable. ``kind``: parameter, function, class, import or variable. ``places``: everywhere it stands, in order."""

    name: str
    scope: Scope
    kind: str = "variable"
    node: ast.AST | None = None  # of the first binding
    definitions: list[Span] = field(default_factory=list)
    places: list[Span] = field(default_factory=list)

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


class Names:
    """The variables of a file."""

    def __init__(self, source: SourceFile):
        self._source = source
        self._uses: list[tuple[Scope, str, Span]] = []
        self._keywords: list[tuple[Scope, ast.Call]] = []
        self._functions: dict[ast.AST, Scope] = {}
        self._scopes: list[Scope] = []
        self.module = self._enter("module", None, source.tree)
        for statement in source.tree.body:
            self._visit(statement, self.module)
        self.bindings: list[Binding] = []
        self._resolve()
        self._places = sorted(((p.line, p.column, p.end_column, b) for b in self.bindings for p in b.places), key=lambda t: t[:3])

    def at(self, line: int, column: int) -> Binding | None:
        """The variable whose name stands at a place (from 1); the end of a name counts."""
        index = bisect_right(self._places, (line, column, 1 << 30), key=lambda t: t[:3])
        for place_line, begin, end, binding in reversed(self._places[max(index - 2, 0):index]):
            if place_line == line and begin <= column <= end:
                return binding
        return None

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

    def scope_of(self, function: ast.AST) -> Scope | None:
        return self._functions.get(function)

    # -- binding ---------------------------------------------------------------------------------------------------------
    def _bind(self, scope: Scope, name: str, span: Span, kind: str, node: ast.AST) -> None:
        target = self._target(scope, name)
        found = target.names.get(name)
        if found is None:
            found = target.names[name] = Binding(name, target, kind, node)
        found.definitions.append(span)
        found.places.append(span)

    def _target(self, scope: Scope, name: str) -> Scope:
        if scope.elsewhere.get(name) == "global":
            return self.module
        if scope.elsewhere.get(name) == "nonlocal":
            outer = scope.parent
            while outer is not None and not (outer.kind == "function" and name in outer.names):
                outer = outer.parent
            return outer or scope
        return scope

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        visitor = getattr(self, f"_visit_{type(node).__name__}", None)
        if visitor is not None:
            visitor(node, scope)
        else:
            self._children(node, scope)

    def _children(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def _visit_Name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            self._uses.append((scope, node.id, self._source.span(node)))
        else:
            self._bind(scope, node.id, self._source.span(node), "variable", node)

    def _visit_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> None:
        target = scope
        while target.kind == "comprehension" and target.parent is not None:
            target = target.parent
        self._bind(target, node.target.id, self._source.span(node.target), "variable", node.target)
        self._visit(node.value, scope)

    def _visit_Global(self, node: ast.Global, scope: Scope) -> None:
        self._declare(node, scope, "global")

    def _visit_Nonlocal(self, node: ast.Nonlocal, scope: Scope) -> None:
        self._declare(node, scope, "nonlocal")

    def _declare(self, node: ast.Global | ast.Nonlocal, scope: Scope, how: str) -> None:
        text, line = self._source.lines[node.lineno - 1], node.lineno
        for name in node.names:
            scope.elsewhere[name] = how
            match = re.search(rf"\b{re.escape(name)}\b", text)
            if match:
                self._uses.append((scope, name, Span(self._source.path, line, match.start() + 1, line, match.end() + 1)))

    def _visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        self._bind(scope, node.name, self._source.name_span(node), "function", node)
        for outside in (*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d), *([node.returns] if node.returns else [])):
            self._visit(outside, scope)
        inner = self._enter("function", scope, node)
        self._arguments(node.args, inner, scope)
        for statement in node.body:
            self._visit(statement, inner)

    _visit_AsyncFunctionDef = _visit_FunctionDef

    def _visit_Lambda(self, node: ast.Lambda, scope: Scope) -> None:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self._visit(default, scope)
        inner = self._enter("function", scope, node)
        self._arguments(node.args, inner, scope)
        self._visit(node.body, inner)

    def _visit_ClassDef(self, node: ast.ClassDef, scope: Scope) -> None:
        self._bind(scope, node.name, self._source.name_span(node), "class", node)
        for outside in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self._visit(outside, scope)
        inner = self._enter("class", scope, node)
        for statement in node.body:
            self._visit(statement, inner)

    def _enter(self, kind: str, parent: Scope | None, node: ast.AST) -> Scope:
        made = Scope(kind, parent, node)
        self._scopes.append(made)
        if kind == "function":
            self._functions[node] = made
        return made

    def _arguments(self, args: ast.arguments, inner: Scope, outer: Scope) -> None:
        for a in (*args.posonlyargs, *args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs, *([args.kwarg] if args.kwarg else [])):
            start = self._source.span(a)
            self._bind(inner, a.arg, Span(start.path, start.line, start.column, start.line, start.column + len(a.arg)), "parameter", a)
            if a.annotation is not None:
                self._visit(a.annotation, outer)

    def _visit_comprehension_like(self, node: ast.AST, scope: Scope) -> None:
        inner = self._enter("comprehension", scope, node)
        for index, generator in enumerate(node.generators):  # type: ignore[attr-defined]
            self._visit(generator.iter, scope if index == 0 else inner)
            self._visit(generator.target, inner)
            for condition in generator.ifs:
                self._visit(condition, inner)
        for name in ("elt", "key", "value"):
            value = getattr(node, name, None)
            if value is not None:
                self._visit(value, inner)

    _visit_ListComp = _visit_SetComp = _visit_DictComp = _visit_GeneratorExp = _visit_comprehension_like

    def _visit_Import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            self._alias(alias, alias.asname or alias.name.split(".")[0], scope)

    def _visit_ImportFrom(self, node: ast.ImportFrom, scope: Scope) -> None:
        for alias in node.names:
            if alias.name != "*":
                self._alias(alias, alias.asname or alias.name, scope)

    def _alias(self, alias: ast.alias, name: str, scope: Scope) -> None:
        whole = self._source.span(alias)
        if alias.asname:
            span = Span(whole.path, whole.end_line, whole.end_column - len(name), whole.end_line, whole.end_column)
        else:
            span = Span(whole.path, whole.line, whole.column, whole.line, whole.column + len(name))
        self._bind(scope, name, span, "import", alias)

    def _visit_ExceptHandler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name:
            text = self._source.lines[node.lineno - 1]
            match = re.search(rf"\bas\s+({re.escape(node.name)})\b", text)
            if match:
                self._bind(scope, node.name, Span(self._source.path, node.lineno, match.start(1) + 1, node.lineno, match.end(1) + 1), "variable", node)
        self._children(node, scope)

    def _visit_Call(self, node: ast.Call, scope: Scope) -> None:
        if any(k.arg for k in node.keywords):
            self._keywords.append((scope, node))
        self._children(node, scope)

    # -- resolving ---------------------------------------------------------------------------------------------------------
    def _resolve(self) -> None:
        for scope, name, span in self._uses:
            binding = scope.lookup(name)
            if binding is not None:
                binding.places.append(span)
        for scope, call in self._keywords:
            self._keyword_places(scope, call)
        self._directive_places()
        for scope in self._scopes:
            for binding in scope.names.values():
                binding.places = sorted(dict.fromkeys(binding.places), key=Span.start)
                self.bindings.append(binding)

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
                binding.places.append(Span(start.path, start.line, start.column, start.line, start.column + len(keyword.arg)))

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
                    binding.places.append(Span(self._source.path, directive.line, match.start(1) + 1, directive.line, match.end(1) + 1))

    def _function_below(self, line: int) -> ast.AST | None:
        following = [f for f in self._functions if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
                     and min([f.lineno, *(d.lineno for d in f.decorator_list)]) > line]
        return min(following, key=lambda f: f.lineno, default=None)  # type: ignore[attr-defined]
