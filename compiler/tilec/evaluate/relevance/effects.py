"""What one statement of host code reads, binds and changes, by names."""
from __future__ import annotations

import ast
from dataclasses import field

from ...records import dataclass
from ...source.nodes import children, walk
from ..blocks import statements_of

_CHANGING_METHODS = frozenset(("append", "extend", "insert", "update", "add", "pop", "remove", "setdefault", "popitem"))
_PLAIN_CALLS = frozenset(("len", "min", "max", "isinstance", "all", "any", "int", "abs", "sum", "hasattr", "callable"))
# Functions and modules whose functions change none of their arguments.
_HARMLESS = _PLAIN_CALLS | {"print", "range", "enumerate", "zip", "sorted", "str", "float", "list", "tuple", "dict", "set", "map", "filter", "repr"}
_HARMLESS_MODULES = frozenset(("torch", "np", "numpy", "math", "itertools", "F", "T"))


@dataclass(slots=True)
class Effects:
    """``reads`` leaves out names that occur only among the arguments of a call of a plain name: those are in ``arguments``."""

    reads: set[str] = field(default_factory=set)
    arguments: dict[str, set[str]] = field(default_factory=dict)  # called name -> names read in its arguments
    binds: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)  # roots of ``x[i] = ...`` and ``x.a = ...``
    changes: set[str] = field(default_factory=set)  # roots of method calls that may change the object
    passed: set[str] = field(default_factory=set)  # given to a call: the function may change what they hold
    tensors: set[str] = field(default_factory=set)  # bound to what a function of torch gives: never a list or an object
    aliases: list[tuple[str, str]] = field(default_factory=list)  # (name, root of the object that it may stand for a part of)
    names: frozenset[str] = frozenset()  # every name that is read
    has_call: bool = False


def header_effects(node: ast.stmt) -> Effects:
    """Of a simple statement, or of what a compound one evaluates itself (its test, its iterable, its context managers)."""
    found = Effects()
    if isinstance(node, (ast.If, ast.While)):
        _read(node.test, found, found.reads)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        _read(node.iter, found, found.reads)
        _store(node.target, node.iter, found)
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            _read(item.context_expr, found, found.reads)
            if item.optional_vars is not None:
                _store(item.optional_vars, item.context_expr, found)
    elif isinstance(node, ast.Match):
        _read(node.subject, found, found.reads)
    elif not isinstance(node, ast.Try):
        _simple(node, found)
    found.names = frozenset(found.reads.union(*found.arguments.values()))
    return found


def definition_effects(name: str, words: frozenset[str]) -> Effects:
    """Of a function or class by the words of its text: more than it reads."""
    return Effects(reads=set(words), binds={name}, names=words)


def _simple(node: ast.stmt, found: Effects) -> None:
    if isinstance(node, ast.Assign):
        _read(node.value, found, found.reads)
        for target in node.targets:
            _store(target, node.value, found)
            if isinstance(target, ast.Name) and _gives_tensor(node.value):
                found.tensors.add(target.id)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        if node.value is not None:
            _read(node.value, found, found.reads)
        _store(node.target, None, found)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.reads.add(node.target.id)
    elif isinstance(node, ast.Expr):
        _read(node.value, found, found.reads)
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
            found.changes |= {root for root in [root_of(node.value.func)] if root is not None}
    else:
        for part in children(node):
            if isinstance(node, ast.Delete):
                _store(part, None, found)  # type: ignore[arg-type]
            else:
                _read(part, found, found.reads)


def _store(target: ast.expr, value: ast.expr | None, found: Effects) -> None:
    if isinstance(target, ast.Name):
        found.binds.add(target.id)
        root = root_of(value) if value is not None else None
        if root is not None:
            found.aliases.append((target.id, root))
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            _store(element, value, found)
    elif isinstance(target, ast.Starred):
        _store(target.value, value, found)
    elif isinstance(target, (ast.Subscript, ast.Attribute)):
        root = root_of(target)
        if root is not None:
            found.stores.add(root)
        _read(target, found, found.reads)


def _gives_tensor(node: ast.expr) -> bool:
    """``torch.full(...)``, ``torch.randn(...).to(...)``; lists come from ``tolist`` and the like only."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("tolist", "split", "chunk", "unbind"):
            return False
        node = node.func.value
        if isinstance(node, ast.Name):
            return node.id == "torch"
    return False


def root_of(node: ast.expr) -> str | None:
    """``x`` of ``x``, ``x.a[i].b``."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _read(node: ast.AST, found: Effects, reads: set[str]) -> None:
    """Collect what an expression reads into ``reads``."""
    kind = node.__class__
    if kind is ast.Name:
        (found.binds if isinstance(node.ctx, ast.Store) else reads).add(node.id)  # type: ignore[attr-defined]
    elif kind is ast.Call:
        _call(node, found, reads)  # type: ignore[arg-type]
    elif kind is not ast.Constant:
        for part in children(node):
            _read(part, found, reads)


def _call(node: ast.Call, found: Effects, reads: set[str]) -> None:
    found.has_call = True
    parts = [*node.args, *(k.value for k in node.keywords)]
    if not _is_harmless(node.func):
        found.passed |= {p.id for p in parts if isinstance(p, ast.Name)}
    if isinstance(node.func, ast.Name) and not any(isinstance(a, ast.Starred) for a in node.args):
        reads.add(node.func.id)
        inner = found.arguments.setdefault(node.func.id, set())
        for part in parts:
            _read(part, found, inner)
        if inner and reads is not found.reads:
            reads |= inner
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING_METHODS:
        found.changes |= {root for root in [root_of(node.func)] if root is not None}
    _read(node.func, found, reads)
    for part in parts:
        _read(part, found, reads)


def _is_harmless(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in _HARMLESS
    return root_of(called) in _HARMLESS_MODULES


def is_plain_test(node: ast.expr) -> bool:
    """Whether a condition is about numbers, strings and types, as far as its calls tell."""
    return all(isinstance(n.func, ast.Name) and n.func.id in _PLAIN_CALLS for n in walk(node) if isinstance(n, ast.Call))


def repeats(node: ast.For) -> bool:
    """Whether every iteration does the same: it uses neither the loop's variable nor what an earlier iteration left behind."""
    if any(isinstance(s, (ast.FunctionDef, ast.ClassDef)) for s in node.body):
        return False
    inner = [(s, _deep_effects(s)) for s in node.body]
    assigned = header_effects(node).binds.union(*(e.binds for _, e in inner))
    done: set[str] = set()
    for statement, effects in inner:
        if effects.stores or effects.changes or not (assigned - done).isdisjoint(effects.names):
            return False
        if isinstance(statement, ast.Assign):
            done |= effects.binds
    return True


def _deep_effects(node: ast.stmt) -> Effects:
    """Of a statement with those inside it."""
    found = header_effects(node)
    for inner in statements_of(node):
        if isinstance(inner, ast.stmt):
            effects = _deep_effects(inner)
            found.names |= effects.names
            found.binds |= effects.binds
            found.stores |= effects.stores
            found.changes |= effects.changes
    return found
