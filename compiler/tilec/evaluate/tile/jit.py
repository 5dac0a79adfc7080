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
            made = ev.on_call(function, [], {}, b.span)
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
    if name == "__name__":
        return function.name
    if name == "with_attr":
        return Native(name, lambda ev, args, kwargs, node: function)
    return unknown(f"attribute {name}")


