"""Layout objects, by how they were made."""
from __future__ import annotations

import ast
from typing import Any

from ...ir.buffer import Buffer
from ...ir.build import lift
from ...ir.expr import Expr, Var
from ...ir.layouts import LayoutValue
from ..evaluator import Evaluator
from ..functions import bind_arguments
from ..values import Function, Native, Partial, is_unknown, plain, unknown
from .registry import Bound, api

__all__ = ["LayoutValue"]

_SWIZZLES = ("make_swizzled_layout", "make_full_bank_swizzled_layout", "make_half_bank_swizzled_layout", "make_quarter_bank_swizzled_layout",
             "make_mma_swizzle_layout", "make_wgmma_swizzled_layout", "make_tcgen05mma_swizzled_layout", "make_volta_swizzled_layout",
             "make_linear_layout")


def _shape(value: Any) -> tuple[Any, ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    found = tuple(plain(v) for v in value)
    return None if any(is_unknown(v) for v in found) else found


def _variables(shape: tuple[Any, ...] | None) -> tuple[Var, ...]:
    return tuple(Var("int32", None, f"i{k}", "loop") for k in range(len(shape or ())))


def _apply(ev: Evaluator, function: Any, args: tuple[Any, ...]) -> Any:
    """What a function of the user's gives for symbolic coordinates; unknown if it is no such function."""
    from ..calls import call_value

    if not isinstance(function, (Function, Native, Partial)):
        return unknown("layout function")
    reporting, ev.reporting = ev.reporting, False
    try:
        return call_value(ev, function, list(args), {}, None)
    finally:
        ev.reporting = reporting


def _check_indices(ev: Evaluator, b: Bound, function: Any, given: int) -> None:
    """A layout's function takes one index for each dimension (and the replica of a replicated fragment)."""
    if isinstance(function, Function) and given:
        error = bind_arguments(function, [unknown("index")] * given, {})[1]
        if error is not None:
            ev.problem("call-arity", f"the function of T.{b.name} gets {given} ind{'ex' if given == 1 else 'ices'}, one for each dimension: {error}", b.span)


def _expressions(value: Any) -> tuple[Expr, ...] | None:
    values = value if isinstance(value, (list, tuple)) else (value,)
    if any(is_unknown(v) or not isinstance(v, (int, Expr)) for v in values):
        return None
    return tuple(lift(v) for v in values)


def layout_of(ev: Evaluator, shape: Any, function: Any) -> LayoutValue:
    """The layout that a function of the indices describes."""
    shape = _shape(shape)
    variables = _variables(shape)
    index = _expressions(_apply(ev, function, variables)) if shape is not None else None
    return LayoutValue("layout", shape, None, variables, index=index)


def layout(ev: Evaluator, b: Bound) -> Any:
    _check_indices(ev, b, b["forward_fn"], len(_shape(b["shape"]) or ()))
    return layout_of(ev, b["shape"], b["forward_fn"])


def fragment(ev: Evaluator, b: Bound) -> Any:
    shape = _shape(b["shape"])
    variables = _variables(shape)
    copies = plain(b["replicate"])
    copies = 1 if copies is None else copies
    if shape is None or not isinstance(copies, int):
        return LayoutValue("fragment", shape)
    replica = Var("int32", None, "rep", "loop") if copies > 1 else None
    given: tuple[Any, ...] = (*variables, replica) if replica is not None else variables
    thread: Any = None
    index: Any = ()
    for name in ("forward_fn", "forward_thread_fn"):
        _check_indices(ev, b, b[name], len(given))
    if b["forward_fn"] is not None:
        both = _apply(ev, b["forward_fn"], given)
        if isinstance(both, (list, tuple)) and len(both) == 2:
            thread, index = both
    else:
        thread = _apply(ev, b["forward_thread_fn"], given)
        index = _apply(ev, b["forward_index_fn"], variables) if b["forward_index_fn"] is not None else ()
    where = _expressions(thread)
    found = where[0] if where is not None and len(where) == 1 else None
    return LayoutValue("fragment", shape, None, variables, replica, found, _expressions(index), copies)


def _swizzled(ev: Evaluator, b: Bound) -> Any:
    values = [v for v in b.values.values() if not isinstance(v, (list, ast.AST))]
    buffer = next((v for v in values if isinstance(v, Buffer)), None)
    return LayoutValue("swizzled", buffer=buffer, name=b.name)


def _replicated(ev: Evaluator, b: Bound) -> Any:
    return LayoutValue("fragment", name=b.name)


for _module in ("tilelang.layout", "tilelang.language", "tilelang.intrinsics"):
    for _name in _SWIZZLES:
        api(_name, "buffer *rest k_major=", _module)(_swizzled)
for _module in ("tilelang.layout", "tilelang.language"):
    api("Layout", "shape forward_fn", _module)(layout)
    api("Fragment", "shape forward_fn= forward_thread_fn= replicate= forward_index_fn=", _module)(fragment)
    for _name in ("make_fully_replicated_layout_fragment", "make_gemm_fragment_8x8", "make_gemm_fragment_8x8_transposed"):
        api(_name, "*rest", _module)(_replicated)


@api("get_swizzle_layout", "*args", "tilelang.intrinsics")
def get_swizzle_layout(ev: Evaluator, b: Bound) -> Any:
    return unknown("layout")
