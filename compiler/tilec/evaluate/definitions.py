"""Kernel definitions of a file, and the instances they are checked at."""
from __future__ import annotations

import ast
from dataclasses import field
from typing import Any

from ..records import dataclass
from ..source.file import SourceFile
from ..source.span import Span
from .blocks import statements_of
from .tile.jit import _is_prim_func, has_inner_prim_func
from .values import Class, DType, Function, HostTensor, Instance, is_unknown

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(eq=False)
class KernelInstance:
    """A kernel with arguments. ``origin``: ``command``, ``directive``, ``config``, ``call``, ``autotune``, ``defaults``, ``variant``,
    ``unknown``."""

    text: str
    function: Function
    args: list[Any]
    kwargs: dict[str, Any]
    origin: str
    span: Span | None = None
    options: dict[str, Any] = field(default_factory=dict)
    targets: list[str | None] = field(default_factory=list)  # it is compiled for, in words; None: the machine's own
    successes: int = 0  # compilations outside of `with pytest.raises(...)`
    failures: int = 0  # and inside

    @property
    def expects_failure(self) -> bool:
        """Whether a test makes it to see it refused."""
        return self.failures > 0 and self.successes == 0

    def is_assumed(self) -> bool:
        """Made from the arguments of a similar kernel: nobody says that this one takes them."""
        return self.origin == "variant"

    def is_known(self) -> bool:
        return not any(is_unknown(v) for v in (*self.args, *self.kwargs.values()))


@dataclass(eq=False)
class KernelDefinition:
    """``kind``: ``lazy`` (a function with a @T.prim_func inside), ``eager`` (@tilelang.jit without), ``prim_func`` (at module level)."""

    name: str
    qualname: str
    kind: str
    node: ast.FunctionDef
    span: Span
    name_span: Span
    first_line: int  # of the decorators
    outermost: ast.stmt  # the top-level statement it stands in
    instances: list[KernelInstance] = field(default_factory=list)
    function: Function | None = None

    @property
    def parameters(self) -> list[str]:
        args = self.node.args
        return [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


@dataclass(frozen=True)
class _Candidate:
    """A function that is a kernel, or would be one under tilelang.jit (``kind`` None, but ``could_be_eager``)."""

    node: ast.FunctionDef
    path: tuple[ast.AST, ...]  # the functions and classes it stands in
    kind: str | None
    could_be_eager: bool
    span: Span
    name_span: Span


def find_definitions(source: SourceFile, eager: set[ast.AST]) -> list[KernelDefinition]:
    """All kernels of a file in order. ``eager``: functions evaluation found under tilelang.jit without a prim_func inside."""
    found: list[KernelDefinition] = []
    for statement in source.tree.body:
        for candidate in source.remembered("kernel candidates", statement, lambda top=statement: _candidates(source, top)):  # type: ignore[misc]
            kind = candidate.kind or ("eager" if candidate.could_be_eager and candidate.node in eager else None)
            if kind is not None:
                found.append(_definition(candidate, statement, kind))
    return found


def _candidates(source: SourceFile, top: ast.stmt) -> list[_Candidate]:
    found: list[_Candidate] = []
    _search(source, top, (), found)
    return found


def _search(source: SourceFile, node: ast.AST, path: tuple[ast.AST, ...], found: list[_Candidate]) -> None:
    if isinstance(node, ast.FunctionDef):
        kind, could_be_eager = _kind(node, path)
        if kind is not None or could_be_eager:
            found.append(_Candidate(node, path, kind, could_be_eager, source.span(node), source.name_span(node)))
    inner = (*path, node) if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else path
    for child in statements_of(node):
        _search(source, child, inner, found)


def _kind(node: ast.FunctionDef, path: tuple[ast.AST, ...]) -> tuple[str | None, bool]:
    """What a function is by its looks, and whether being jitted would make it an eager kernel."""
    if any(_is_prim_func(d) for d in node.decorator_list):
        return (None if any(isinstance(p, FUNCTIONS) for p in path) else "prim_func"), False
    if _owns_prim_func(node):
        return "lazy", False
    return ("eager" if _looks_jitted(node) else None), True


def _owns_prim_func(node: ast.FunctionDef) -> bool:
    """A prim_func stands in this function and in no function between."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        if isinstance(item, ast.FunctionDef):
            if any(_is_prim_func(d) for d in item.decorator_list):
                return True
            continue
        if isinstance(item, (ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        stack.extend(statements_of(item))
    return False


def _looks_jitted(node: ast.FunctionDef) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        if not isinstance(target, ast.Attribute) or target.attr != "jit":
            continue
        if isinstance(target.value, ast.Name) and target.value.id in ("tilelang", "tl", "tilec"):
            return not has_inner_prim_func(node)
    return False


def _definition(found: _Candidate, top: ast.stmt, kind: str) -> KernelDefinition:
    node = found.node
    names = [p.name for p in found.path if isinstance(p, (*FUNCTIONS, ast.ClassDef))]
    first = min([d.lineno for d in node.decorator_list] + [node.lineno])
    return KernelDefinition(node.name, ".".join([*names, node.name]), kind, node, found.span, found.name_span, first, top)


# -- how an instance is written --------------------------------------------------------------------------------------------
def instance_text(definition: KernelDefinition, args: list[Any], kwargs: dict[str, Any]) -> str:
    """The call of a kernel as it can be given to ``--instance``: a method's with its receiver, ``Op(128, 64).build(block=16)``."""
    if args and isinstance(args[0], Instance) and definition.parameters[:1] == ["self"]:
        return f"{value_text(args[0])}.{call_text(definition.name, args[1:], kwargs)}"
    if args and isinstance(args[0], Class) and definition.parameters[:1] == ["cls"]:
        return f"{args[0].name}.{call_text(definition.name, args[1:], kwargs)}"
    owner = definition.outermost
    if isinstance(owner, ast.ClassDef) and definition.qualname == f"{owner.name}.{definition.name}" and definition.parameters[:1] != ["self"]:
        return call_text(definition.qualname, args, kwargs)
    return call_text(definition.name, args, kwargs)


def call_text(name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """``matmul(1024, 1024, block_M=128)``."""
    parts = [value_text(a) for a in args] + [f"{k}={value_text(v)}" for k, v in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def value_text(value: Any) -> str:
    if is_unknown(value):
        return "?"
    if isinstance(value, DType):
        return repr(value.name)
    if isinstance(value, HostTensor):
        shape = ", ".join(value_text(s) for s in value.shape)
        return f"tensor(({shape}{',' if len(value.shape) == 1 else ''}), {value.dtype!r})"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, Instance) and value.given is not None and not value.cls.is_dataclass:
        return call_text(value.cls.name, *value.given)
    if isinstance(value, Instance):
        fields = ", ".join(f"{k}={value_text(v)}" for k, v in list(value.attributes.items())[:8])
        return f"{value.cls.name}({fields})"
    if isinstance(value, (Function, Class)):
        return value.name
    if isinstance(value, (int, float, str, bool, bytes)) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if hasattr(value, "name"):
        return str(value.name)
    return "..."
