"""Slicing host code: of a function's statements only those run that lead to calls of kernels, or that such statements need.

It goes by names and ignores the order of statements, so it keeps too much rather than too little.
"""
from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from ...records import dataclass
from ...source.file import SourceFile
from ...source.nodes import children, walk
from ..blocks import statements_of
from ..definitions import KernelDefinition
from ..scope import Scope
from ..values import BoundMethod, Class, Compiled, Function, HostObject, Instance, Partial
from .effects import Effects, definition_effects, header_effects, is_plain_test, repeats

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ALWAYS = (*_DEFINITIONS, ast.Import, ast.ImportFrom, ast.Return, ast.Global, ast.Nonlocal, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DYNAMIC = frozenset(("globals", "locals", "vars", "eval", "exec"))  # names may be used that are not written
_HOLDERS = (list, dict, set, Instance, Class, HostObject)  # what a statement may change in place
_CALLABLE = (BoundMethod, Partial, Compiled, Class, Instance, HostObject)

LEADS = 2  # a name that may stand for something whose call makes instances of kernels
COMPILED = 1  # a name for a kernel or a prim_func: its uses matter, but not the arguments it is called with


class Plan:
    """Of one body: which statements are left out, always or unless a name in question holds something that can be changed."""

    def __init__(self, skipped: dict[ast.stmt, frozenset[str]]):
        self._skipped = skipped

    def skips(self, node: ast.stmt, scope: Scope) -> bool:
        holders = self._skipped.get(node)
        return holders is not None and not any(_may_change(scope, name) for name in holders)


def _may_change(scope: Scope, name: str) -> bool:
    return isinstance(scope.lookup(name), _HOLDERS)


class Slicer:
    """Plans for the host code of one analysis. ``extra``: more names that are needed of the module."""

    def __init__(self, source: SourceFile, definitions: Iterable[KernelDefinition], extra: Iterable[str] = ()):
        self.source = source
        self._extra = set(extra)
        self._effects: dict[ast.stmt, Effects] = {}
        self._repeats: dict[ast.For, bool] = {}
        self._plans: dict[tuple[ast.AST, frozenset[str], frozenset[str]], Plan | None] = {}
        self._terminal: frozenset[str] = frozenset()
        self._leading: frozenset[str] = frozenset()
        self._raising: frozenset[str] = frozenset()
        self._nodes: set[ast.AST] = set()
        self.learn(definitions)

    def learn(self, definitions: Iterable[KernelDefinition]) -> None:
        """More kernels are known: what was left out before may lead to them."""
        known = list(definitions)
        nodes: set[ast.AST] = {d.node for d in known}
        if nodes == self._nodes and known:
            return
        self._nodes = nodes
        self._terminal = frozenset(d.name for d in known)
        outer = {getattr(d.outermost, "name", d.name) for d in known}
        self._leading = self._names_leading_to({*self._terminal, *outer, *self._functions_with("global")})
        self._raising = self._functions_with("raise")
        self._plans.clear()

    def leads(self, name: str) -> bool:
        """Whether a name of the module may lead to kernels."""
        return name in self._leading

    def _functions_with(self, word: str) -> frozenset[str]:
        return frozenset(s.name for s in self.source.tree.body if isinstance(s, _DEFINITIONS) and word in self.words(s))

    def _names_leading_to(self, names: set[str]) -> frozenset[str]:
        """The functions, classes and variables of the module whose text mentions one of the names, and so on."""
        bound = [(self._bound_names(s), self.words(s)) for s in self.source.tree.body]
        found, before = set(names), -1
        while len(found) != before:
            before = len(found)
            for binds, words in bound:
                if not binds <= found and not found.isdisjoint(words):
                    found |= binds
        return frozenset(found)

    def words(self, statement: ast.stmt, source: SourceFile | None = None) -> frozenset[str]:
        """Every word in the text of a statement."""
        return (source or self.source).words(statement)

    def effects(self, statement: ast.stmt, source: SourceFile) -> Effects:
        found = self._effects.get(statement)
        if found is None:
            is_definition = isinstance(statement, _DEFINITIONS)
            found = definition_effects(statement.name, self.words(statement, source)) if is_definition else header_effects(statement)  # type: ignore[attr-defined]
            self._effects[statement] = found
        return found

    def _bound_names(self, statement: ast.stmt) -> set[str]:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            return set()
        found = set(self.effects(statement, self.source).binds)
        if not isinstance(statement, _DEFINITIONS):
            for inner in statements_of(statement):
                if isinstance(inner, ast.stmt):
                    found |= self._bound_names(inner)
        return found

    def repeats(self, node: ast.For) -> bool:
        """Whether a loop of the host does the same in every iteration."""
        if node not in self._repeats:
            self._repeats[node] = repeats(node)
        return self._repeats[node]

    # -- plans ---------------------------------------------------------------------------------------------------
    def module_plan(self) -> Plan | None:
        """Of the module itself: definitions, imports and plain values stay."""
        needed = set(self._extra)
        for statement in self.source.tree.body:
            if isinstance(statement, _DEFINITIONS):
                needed |= self.words(statement)
        items = [self._item(s, self.source) for s in self.source.tree.body]
        return _Slice(self._terminal, dict.fromkeys(self._leading, LEADS), needed, self._raising, is_module=True).plan(items)

    def plan(self, function: Function, scope: Scope) -> Plan | None:
        """Of a function that is called on the host; None if everything in it is to run."""
        node = function.node
        if not isinstance(node, ast.FunctionDef) or node in self._nodes or function.scope.parent is not None:
            return None
        given = frozenset(n for n, v in scope.names.items() if self._may_lead(v))
        holders = frozenset(n for n, v in scope.names.items() if isinstance(v, _HOLDERS))
        key = (node, given, holders)
        if key not in self._plans:
            self._plans[key] = self._make(function, node, given, holders)
        return self._plans[key]

    def _make(self, function: Function, node: ast.FunctionDef, given: frozenset[str], holders: frozenset[str]) -> Plan | None:
        own = function.source is self.source
        levels = dict.fromkeys(self._leading if own else (), LEADS)
        parameters = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        for name in parameters:
            levels.pop(name, None)
        levels.update(dict.fromkeys(given, LEADS))
        items = [self._item(s, function.source) for s in node.body]
        made = _Slice(self._terminal if own else frozenset(), levels, set(), self._raising if own else frozenset())
        made.fixed = _never_holders(items, {n for n in parameters if n not in holders})
        return made.plan(items)

    def _item(self, node: ast.AST, source: SourceFile) -> _Item:
        effects = self.effects(node, source) if isinstance(node, ast.stmt) else Effects()
        if isinstance(node, _DEFINITIONS):
            return _Item(node, effects)
        inner = [self._item(s, source) for s in statements_of(node)]
        jumps = isinstance(node, (ast.Break, ast.Continue)) or (not isinstance(node, _LOOPS) and any(i.jumps for i in inner))
        return _Item(node, effects, inner, jumps)

    def _may_lead(self, value: Any) -> bool:
        """Whether calling an argument, or something in it, may lead to kernels."""
        if isinstance(value, (list, tuple)):
            return any(self._may_lead(v) for v in value)
        if isinstance(value, dict):
            return any(self._may_lead(v) for v in value.values())
        if isinstance(value, Function):
            inner = value.scope.parent is not None or isinstance(value.node, ast.Lambda)
            return inner or (value.source is self.source and value.name in self._leading)
        return isinstance(value, _CALLABLE)


@dataclass(eq=False, slots=True)
class _Item:
    """A statement with the statements inside it. ``holders``: it counts only if one of these names can be changed in place."""

    node: ast.AST
    effects: Effects
    inner: list[_Item] = field(default_factory=list)
    jumps: bool = False  # holds a break or continue of a loop around it
    kept: bool = False
    holders: set[str] = field(default_factory=set)


class _Slice:
    """The fixed point for one body: what is kept grows with the names needed and with those that lead to kernels."""

    def __init__(self, terminal: frozenset[str], levels: dict[str, int], needed: set[str], raising: frozenset[str], is_module: bool = False):
        self.terminal = terminal  # functions whose call gives a compiled kernel, a prim_func or a tensor
        self.levels = levels
        self.needed = needed
        self.raising = raising  # functions that may say that the rest does not happen
        self.is_module = is_module
        self.fixed: set[str] = set()  # names that hold nothing that can be changed in place
        self.bound: set[str] = set()  # names that the body gives values

    def plan(self, items: list[_Item]) -> Plan | None:
        self.bound = {n for i in _all(items) for n in i.effects.binds}
        if any(_DYNAMIC & i.effects.names for i in _all(items)):
            return None
        while self._pass(items):
            pass
        skipped: dict[ast.stmt, frozenset[str]] = {}
        _collect(items, skipped)
        return Plan(skipped)

    def _pass(self, items: list[_Item], outer: _Item | None = None) -> bool:
        changed = False
        for item in items:
            if item.kept and isinstance(item.node, _LOOPS):
                _keep_jumps(item.inner)
            changed |= self._pass(item.inner, item)
            changed |= self._spread(item)
            if not item.kept and self._is_relevant(item, outer):
                item.kept = changed = True
            if item.kept:
                changed |= self._need(item)
            elif self._add_holders(item):
                changed = True
        return changed

    # -- names that lead to kernels ------------------------------------------------------------------------------
    def _spread(self, item: _Item) -> bool:
        """Give the names a statement binds the level of what it binds them to."""
        node = item.node
        if not self._mentions(item.effects):
            return False
        if isinstance(node, _DEFINITIONS):
            level = LEADS
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            level = self._level(node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            level = self._level(node.iter)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            level = max(self._level(i.context_expr) for i in node.items)
        elif isinstance(node, ast.Expr) and item.effects.changes:
            level = LEADS
        else:
            return False
        changed = False
        for name in (*item.effects.binds, *item.effects.stores, *(item.effects.changes if isinstance(node, ast.Expr) else ())):
            if name in self.bound and level > self.levels.get(name, 0):
                self.levels[name] = level
                changed = True
        return changed

    def _level(self, node: ast.AST | None) -> int:
        if node is None or isinstance(node, ast.Constant):
            return 0
        if isinstance(node, ast.Name):
            return self.levels.get(node.id, 0)
        if isinstance(node, ast.Call):
            return self._level_of_call(node)
        if isinstance(node, ast.Attribute):
            level = self._level(node.value)
            return 0 if level == COMPILED else level
        if isinstance(node, ast.Lambda):
            return LEADS if any(isinstance(n, ast.Name) and n.id in self.levels for n in walk(node.body)) else 0
        return max((self._level(part) for part in children(node)), default=0)

    def _level_of_call(self, node: ast.Call) -> int:
        target = node.func
        owner = target.value if isinstance(target, ast.Attribute) else target
        if isinstance(owner, ast.Name):
            if owner.id in self.terminal:
                return COMPILED
            if self.levels.get(owner.id) == COMPILED:
                return 0  # a tensor, a profiler
        level = max((self._level(part) for part in (target, *node.args, *(k.value for k in node.keywords))), default=0)
        if level and isinstance(target, ast.Attribute) and target.attr == "compile":
            return COMPILED
        return LEADS if level else 0

    def _mentions(self, effects: Effects) -> bool:
        return not self.levels.keys().isdisjoint(effects.names)

    # -- what is kept --------------------------------------------------------------------------------------------
    def _is_relevant(self, item: _Item, outer: _Item | None) -> bool:
        node, effects = item.node, item.effects
        if isinstance(node, _ALWAYS) or any(i.kept for i in item.inner):
            return True
        if isinstance(node, ast.Expr) and not self.raising.isdisjoint(effects.arguments):
            return True
        if self.is_module and isinstance(node, ast.Expr) and "sys" in effects.names:
            return True  # sys.path.append(...)
        if isinstance(node, ast.Expr) and "pytest" in effects.names:
            return True  # pytest.skip(...)
        if isinstance(node, ast.Raise):
            return outer is None or outer.kept or not isinstance(outer.node, ast.If)
        if isinstance(node, ast.Assert):
            return self._mentions(effects) or (is_plain_test(node.test) and self._is_about_needed(effects))
        if isinstance(node, ast.If) and any(isinstance(i.node, ast.Raise) for i in item.inner) and self._is_about_needed(effects):
            return True
        if self._mentions(effects) or not self.needed.isdisjoint(effects.binds):
            return True
        return self.is_module and isinstance(node, (ast.Assign, ast.AnnAssign)) and not effects.has_call

    def _is_about_needed(self, effects: Effects) -> bool:
        """Whether a guard is about what kernels are made with, not about results."""
        return not any(n in self.bound and n not in self.needed for n in effects.names)

    def _need(self, item: _Item) -> bool:
        """The names a kept statement reads; of the arguments of a compiled kernel only those that lead further."""
        before = len(self.needed)
        effects = item.effects
        if isinstance(item.node, _DEFINITIONS):
            if item.node.name not in self.needed and item.node.name not in self.levels:  # type: ignore[union-attr]
                return False
            if self.is_module:
                return False
        self.needed |= effects.reads
        for called, names in effects.arguments.items():
            if self.levels.get(called) != COMPILED or not self.levels.keys().isdisjoint(names):
                self.needed |= names
        for name, root in effects.aliases:
            if root in self.needed:
                self.needed.add(name)
        return len(self.needed) != before

    def _add_holders(self, item: _Item) -> bool:
        """Names that are needed and that the statement may change in place, if they hold something that can be changed."""
        effects = item.effects
        found = ((effects.stores | effects.changes | effects.passed) & self.needed) - self.fixed
        for inner in item.inner:
            found |= inner.holders
        if found <= item.holders:
            return False
        item.holders |= found
        self.needed |= effects.names
        return True


def _never_holders(items: list[_Item], parameters: set[str]) -> set[str]:
    """Names that only ever stand for tensors, and parameters given such values that are not bound anew."""
    tensors: set[str] = set()
    others: set[str] = set()
    for item in _all(items):
        tensors |= item.effects.tensors
        if not isinstance(item.node, ast.AugAssign):
            others |= item.effects.binds - item.effects.tensors
    return (tensors | parameters) - others


def _keep_jumps(items: list[_Item]) -> None:
    """How a loop that runs is left, or its iterations are cut short."""
    for item in items:
        if item.jumps:
            item.kept = True
            _keep_jumps(item.inner)


def _all(items: list[_Item]) -> Iterable[_Item]:
    for item in items:
        yield item
        yield from _all(item.inner)


def _collect(items: list[_Item], skipped: dict[ast.stmt, frozenset[str]]) -> None:
    for item in items:
        if item.kept or not isinstance(item.node, ast.stmt):
            _collect(item.inner, skipped)
        else:
            skipped[item.node] = frozenset(item.holders)
