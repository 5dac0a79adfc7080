"""From a running program's function to a tile program, and the faults that keep it from being compiled."""
from __future__ import annotations

import ast
import functools
import types
from dataclasses import replace
from typing import Any

from ..evaluate.definitions import KernelDefinition, KernelInstance, call_text
from ..evaluate.instantiate import instantiate
from ..evaluate.module import ModuleAnalysis
from ..evaluate.tile.jit import has_inner_prim_func
from ..evaluate.values import Api, Function, HostTensor, TensorType
from ..evaluate.workspace import Workspace
from ..ir.buffer import Buffer, Region
from ..ir.build import const_int
from ..ir.expr import Load
from ..ir.expr import walk as walk_expr
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Store, TileOp, expressions, walk
from ..target.chips import Target
from .errors import CompileError
from .functions import enclosing_locals, syntax_of, traced_function
from .values import to_value


class PrimFunc:
    """A function under ``@T.prim_func``. It is traced when it is defined, so later changes of what it captures do not matter."""

    __name__: str
    attrs: dict[str, Any]

    def __init__(self, function: types.FunctionType, frames: tuple[Any, ...] = ()):
        functools.update_wrapper(self, function)
        self.function = function
        self.program = _trace(traced_function(function, to_value, "prim_func", frames), "prim_func", [], {})
        self.attrs = _attributes(self.program, function.__name__)

    @classmethod
    def of(cls, function: types.FunctionType, program: TileProgram) -> PrimFunc:
        """A program that was traced already."""
        made = cls.__new__(cls)
        functools.update_wrapper(made, function)
        made.function = function
        made.attrs, made.program = _attributes(program, function.__name__), program
        return made

    def without_unused(self) -> PrimFunc:
        """The same with only those tensor parameters that its statements mention."""
        used = mentioned(self.program.body)
        kept = [p for p in self.program.params if not isinstance(p, Buffer) or p in used or p in self.program.outputs]
        return PrimFunc.of(self.function, replace(self.program, params=kept))

    @property
    def params(self) -> list[Any]:
        return list(self.program.params)

    @property
    def buffer_map(self) -> dict[Any, Any]:
        """What is known of the tensors among the parameters, by parameter."""
        return {p: _described_buffer(p) for p in self.program.params if isinstance(p, Buffer)}

    def with_attr(self, key: str, value: Any = None) -> PrimFunc:
        self.attrs.update(key if isinstance(key, dict) else {key: value})
        return self

    def script(self) -> str:
        """The tile program as text."""
        from ..ir.printer import program_lines

        return "\n".join(text for text, _ in program_lines(self.program)) + "\n"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CompileError(f"{self.__name__} is a @T.prim_func: compile it (tilelang.compile, or return it from a @tilelang.jit function) and call the result")

    def __repr__(self) -> str:
        return f"<prim_func {self.__name__}>"


def _described_buffer(b: Buffer) -> types.SimpleNamespace:
    def plain(sizes: Any) -> list[Any]:
        return [e if const_int(e) is None else const_int(e) for e in sizes]

    addresses = b.dtype == "handle"  # a table of pointers
    return types.SimpleNamespace(name=b.name, dtype="int64" if addresses else b.dtype, shape=plain(b.shape), strides=plain(b.strides or ()))


def _attributes(program: TileProgram, name: str) -> dict[str, Any]:
    """What the function says of its own compilation, under TileLang's names; outputs counted from the end."""
    made: dict[str, Any] = {"global_symbol": name}
    if program.outputs:
        made["tilelang_out_idx"] = [i - len(program.params) for i, p in enumerate(program.params) if p in program.outputs]
    for key in ("pass_configs", "compile_flags"):
        if program.attrs.get(key):
            made[f"tilelang_{key}"] = program.attrs[key]
    return made


def mentioned(body: Any) -> set[Buffer]:
    """The buffers that statements access, allocate or hand on."""
    found: set[Buffer] = set()
    for s in walk(body):
        if isinstance(s, (Alloc, Store)):
            found.add(s.buffer.storage())
        if isinstance(s, TileOp):
            found |= {v.buffer.storage() for v in s.args.values() if isinstance(v, Region)}
        for e in expressions(s):
            found |= {x.buffer.storage() for x in walk_expr(e) if isinstance(x, Load)}
    return found


def prim_func(function: Any = None, **options: Any) -> Any:
    """``@T.prim_func``, with or without arguments."""
    if function is None:
        return lambda f: PrimFunc(f, enclosing_locals(f, 2))
    return PrimFunc(function, enclosing_locals(function, 2))


prim_func.__tilec_api__ = Api("tilelang.language", "prim_func")  # type: ignore[attr-defined]  # above a function inside traced code

def is_lazy(function: types.FunctionType) -> bool:
    """Whether a jitted function is a factory (it defines a prim_func) rather than a kernel itself."""
    node = syntax_of(function)[1]
    return has_inner_prim_func(node) or not (_opens_a_launch(node) or any(map(_macro_opens_a_launch, _macros_of(function))))


def _macros_of(function: types.FunctionType) -> list[Any]:
    """The macros a function names."""
    from .language import Macro

    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    found = []
    for name in (*code.co_names, *code.co_freevars):
        try:
            value = cells[name].cell_contents if name in cells else function.__globals__.get(name)
        except ValueError:  # not bound yet
            continue
        if isinstance(value, Macro):
            found.append(value)
    return found


def _macro_opens_a_launch(macro: Any, depth: int = 8) -> bool:
    return _opens_a_launch(syntax_of(macro.function)[1]) or (depth > 0 and any(
        _macro_opens_a_launch(m, depth - 1) for m in _macros_of(macro.function) if m is not macro))


def _opens_a_launch(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and (n.func.attr.endswith("Kernel") or n.func.attr == "thread_binding") for n in ast.walk(node))


def eager_program(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]) -> TileProgram:
    """The program of an eager kernel for the arguments of one call."""
    traced = traced_function(function, to_value, "eager")
    traced.jit.update(options)
    program = _trace(traced, "eager", [_described(to_value(a)) for a in args], {k: _described(to_value(v)) for k, v in kwargs.items()})
    conflicts = program.attrs.get("size_conflicts")
    if conflicts:
        from ..emit.arguments import ArgumentError

        raise ArgumentError(f"{program.name}: {'; '.join(conflicts)}")
    return program


def _described(value: Any) -> Any:
    """``T.Tensor((128, 128), dtype)`` in the place of a tensor: one of that shape."""
    if isinstance(value, TensorType) and value.kind == "tensor" and value.shape is not None:
        extents = tuple(const_int(e) for e in value.shape)
        return HostTensor(extents, value.dtype) if None not in extents else value  # type: ignore[arg-type]
    return value


def _trace(function: Function, kind: str, args: list[Any], kwargs: dict[str, Any]) -> TileProgram:
    source, node = function.source, function.node
    if not isinstance(node, ast.FunctionDef):
        raise CompileError("a kernel is a function made with def, not a lambda")
    first = min([d.lineno for d in node.decorator_list] + [node.lineno])
    kernel = KernelDefinition(node.name, node.name, kind, node, source.span(node), source.name_span(node), first, node, function=function)
    instance = KernelInstance(call_text(node.name, args, kwargs), function, args, kwargs, "call")
    return instantiate(ModuleAnalysis(source, workspace=Workspace()), kernel, instance)


def refuse_faulty(program: TileProgram, target: Target) -> None:
    """Raises CompileError with every fault the checker calls an error on a target."""
    from ..check.checker import check_program
    from ..check.diagnostic import ERROR

    errors = [d for d in check_program(program, target) if d.severity == ERROR]
    if errors:
        raise CompileError("\n".join(f"{d.span}: {d.code} {d.message}" for d in errors), errors)
    incomplete = program.attrs.get("incomplete")
    if incomplete:
        raise CompileError(f"{program.span}: {program.name} cannot be compiled: {incomplete}")
