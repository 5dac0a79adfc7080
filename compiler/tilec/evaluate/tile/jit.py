"""tilelang.jit, tilelang.compile, tilelang.autotune, T.prim_func, T.macro."""
from __future__ import annotations

import ast
from typing import Any

from ..blocks import statements_within
from ..evaluator import Evaluator
from ..values import Compiled, Function, Native, unknown
from .registry import Bound, api

_JIT = "*function out_idx= target= target_host= execution_backend= verbose= pass_configs= debug_root_path= compile_flags= func="


def has_inner_prim_func(node: Any) -> bool:
    """Whether a function contains ``@T.prim_func``: then it is a lazy factory, else an eager kernel."""
    return any(isinstance(inner, ast.FunctionDef) and any(_is_prim_func(d) for d in inner.decorator_list) for inner in statements_within(node))


def _is_prim_func(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(target, ast.Attribute) and target.attr == "prim_func") or (isinstance(target, ast.Name) and target.id == "prim_func")


@api("jit", _JIT, "tilelang")
def jit(ev: Evaluator, b: Bound) -> Any:
    options = {k: v for k, v in b.values.items() if k in b.given}
    if "out_idx" in b.nodes:
        options["out_idx_span"] = b.where("out_idx")
    functions = b["function"] or ([b["func"]] if b["func"] is not None else [])
    if functions:
        return _apply_jit(functions[0], options)
    return Native("jit", lambda ev, args, kwargs, node: _apply_jit(args[0], options) if args else unknown("jit"))


api("lazy_jit", _JIT, "tilelang")(jit)


def _apply_jit(function: Any, options: dict[str, Any]) -> Any:
    if isinstance(function, Function):
        if isinstance(function.node, ast.FunctionDef):
            function.kind = "lazy" if has_inner_prim_func(function.node) else "eager"
        function.jit.update(options)
    return function


@api("autotune", "*function configs= warmup= rep= timeout= supply_type= ref_prog= supply_prog= rtol= atol= max_mismatched_ratio= skip_check= "
     "manual_check_prog= cache_input_tensors= func=", "tilelang")
def autotune(ev: Evaluator, b: Bound) -> Any:
    configs = b["configs"]

    def apply(function: Any) -> Any:
        if isinstance(function, Function):
            function.configs = configs if configs is not None else unknown("configs")
        return function

    if b["function"]:
        return apply(b["function"][0])
    return Native("autotune", lambda ev, args, kwargs, node: apply(args[0]) if args else unknown("autotune"))


api("autotune", "*function configs= warmup= rep= timeout= supply_type= ref_prog= supply_prog= rtol= atol= max_mismatched_ratio= skip_check= "
    "manual_check_prog= cache_input_tensors= func=", "tilelang.autotuner")(autotune)


@api("compile", "func= out_idx= execution_backend= target= target_host= verbose= pass_configs= compile_flags=", "tilelang")
def compile_kernel(ev: Evaluator, b: Bound) -> Any:
    function = b["func"]
    if isinstance(function, Function):
        record = function.jit.get("record")
        if record is not None:
            record.options.update({k: v for k, v in b.values.items() if k in b.given and k != "func"})
            ev.surroundings.saw(record, True, b["target"])
        elif function.kind == "prim_func" and ev.on_call is not None:
            made = ev.on_call.compiled_inside(function, b.span)
            if made is not None:
                ev.surroundings.saw(made, True, b["target"])
        return Compiled(function)
    if isinstance(function, Compiled) and function.instance is not None:
        ev.surroundings.only_traced(function.instance)
        ev.surroundings.saw(function.instance, True, b["target"])
        return function
    return unknown("compiled kernel")


for _module in ("tilelang", "tilelang.engine", "tilelang.engine.lower"):
    api("lower", "func target= *rest", _module)(compile_kernel)


@api("prim_func", "*function private= check_well_formed=")
def prim_func(ev: Evaluator, b: Bound) -> Any:
    return _set_kind(b, "prim_func")


@api("macro", "*function hygienic= func=")
def macro(ev: Evaluator, b: Bound) -> Any:
    return _set_kind(b, "macro")


def _set_kind(b: Bound, kind: str) -> Any:
    def apply(function: Any) -> Any:
        if isinstance(function, Function):
            function.kind = kind
        return function

    if b["function"]:
        return apply(b["function"][0])
    return Native(kind, lambda ev, args, kwargs, node: apply(args[0]) if args else unknown(kind))


def function_attribute(ev: Evaluator, function: Function, name: str) -> Any:
    """``matmul.compile(...)``, ``matmul.get_tir(...)`` and the like name an instance."""
    if name in ("compile", "get_tir", "lower", "get_kernel_source"):
        def record(ev: Evaluator, args: list[Any], kwargs: dict[str, Any], node: Any) -> Any:
            if ev.on_call is None or ev.builder is not None:
                return Compiled(function)
            ev.surroundings.tracing = name == "get_tir"
            try:
                return Compiled(function, ev.on_call(function, args, kwargs, ev.span(node) if node is not None else None))
            finally:
                ev.surroundings.tracing = False

        return Native(name, record)
    if name in ("__name__", "__qualname__"):
        return function.name
    if name == "__doc__":
        return ast.get_docstring(function.node, clean=False) if isinstance(function.node, ast.FunctionDef) else None
    if name == "__wrapped__":
        return function
    if name == "with_attr":
        return Native(name, lambda ev, args, kwargs, node: function)
    return unknown(f"attribute {name}")


# -- calling compiled kernels ---------------------------------------------------------------------------------------------------
def kernel_call_fault(kernel: Compiled, given: int) -> str | None:
    """What is wrong with the number of arguments of a compiled kernel's call, in words: all parameters but those of out_idx."""
    function = kernel.function
    options = {**function.jit, **getattr(kernel.instance, "options", {})}
    if function.configs is not None or options.get("wrapped"):
        return None
    names = _parameters(function)
    if names is None:
        return None
    out_idx = options.get("out_idx")
    indices = [] if out_idx is None else list(out_idx) if isinstance(out_idx, (list, tuple)) else [out_idx]
    if not all(isinstance(i, int) and -len(names) <= i < len(names) for i in indices):
        return None
    outputs = {i % len(names) for i in indices}
    wanted = [n for i, n in enumerate(names) if i not in outputs]
    if given == len(wanted):
        return None
    listed = ", ".join(wanted) if wanted else "no arguments"
    text = f"the kernel takes {len(wanted)} argument{'s' if len(wanted) != 1 else ''} ({listed}), but {given} {'is' if given == 1 else 'are'} given"
    if outputs:
        made = " and ".join(names[i] for i in sorted(outputs))
        return f"{text}; {made} {'is' if len(outputs) == 1 else 'are'} allocated and returned, as out_idx says"
    return f"{text}; without out_idx every tensor is passed" if given < len(wanted) else text


def _parameters(function: Function) -> list[str] | None:
    """The parameters of the prim_func a kernel is made of; None if that is not certain."""
    if not isinstance(function.node, ast.FunctionDef):
        return None
    if function.kind == "prim_func":
        found = [function.node]
    else:
        inner = (s for s in statements_within(function.node) if isinstance(s, ast.FunctionDef))
        found = [s for s in inner if any(_is_prim_func(d) for d in s.decorator_list)]
    lists = [[a.arg for a in (*f.args.posonlyargs, *f.args.args)] for f in found]
    if not lists or any(len(names) != len(lists[0]) for names in lists) or any(f.args.vararg or f.args.kwonlyargs for f in found):
        return None
    return lists[0]
