"""Reducers: T.alloc_reducer, T.reducer_init, T.reducer_update, T.finalize_reducer.

A reducer has no readable value between its start and its end; ``check/rules/reducers.py`` says in which order it is used.
"""
from __future__ import annotations

from typing import Any

from ...ir import dtypes
from ...ir.buffer import REDUCER
from ...ir.build import cast, lift
from ...ir.expr import Expr
from ..evaluator import Evaluator
from ..expressions import scalar_operand
from ..values import plain, unknown
from .alloc import allocate, shape_argument
from .elements import to_region
from .operators import emit, regions
from .registry import Bound, api

COMBINES = ("sum", "max", "min", "bitand", "bitor", "bitxor")


@api("alloc_reducer", "shape dtype op= replication=")
def alloc_reducer(ev: Evaluator, b: Bound) -> Any:
    combine = b["op"] if b["op"] is not None else "sum"
    dtype = b.dtype("dtype")
    if isinstance(combine, str):
        _check_combine(ev, b, combine, dtype)
    replication = b["replication"]
    if "replication" in b.given and replication is not None:
        ev.problem("deprecated-api", "T.alloc_reducer(replication=...) will go; start with T.reducer_init, add with T.reducer_update and take the result "
                   "from T.finalize_reducer(reducer, result)", b.where("replication"))
    if isinstance(replication, str) and replication not in ("all", "none"):
        ev.problem("reducer-op", f"replication is {replication!r}; it is 'all' or 'none'", b.where("replication"))
    return allocate(ev, b, shape_argument(ev, b), dtype, REDUCER, reducer_op=combine, replication=replication)


def _check_combine(ev: Evaluator, b: Bound, combine: str, dtype: str) -> None:
    if combine not in COMBINES:
        ev.problem("reducer-op", f"{combine!r} is no reducer; there are {', '.join(COMBINES)}", b.where("op"))
    elif combine.startswith("bit") and dtype != dtypes.UNKNOWN and not (dtypes.is_int(dtype) or dtypes.is_bool(dtype)):
        ev.problem("reducer-op", f"a {combine} reducer works on integers, not on {dtype}", b.where("op"))
    elif combine.startswith("bit") and b["replication"] is not None:
        ev.problem("reducer-op", f"replication= exists for sum, max and min only, not for {combine}", b.where("replication"))


def _contribution(ev: Evaluator, value: Any, dtype: str) -> Any:
    value = plain(scalar_operand(value))
    if not isinstance(value, (int, float, Expr)):
        return unknown("value")
    return cast(lift(value, dtype if not isinstance(value, Expr) and dtype != dtypes.UNKNOWN else None), dtype)


@api("reducer_init", "reducer init=")
def reducer_init(ev: Evaluator, b: Bound) -> Any:
    found = regions(ev, b, "reducer")
    if found is None:
        return None
    start = None
    if b["init"] is not None:
        start = plain(scalar_operand(b["init"]))
        _check_start(ev, b, start, found[0].dtype)
        start = _contribution(ev, start, found[0].dtype)
    emit(ev, b, "reducer_init", {"reducer": found[0], "value": start})
    return None


def _check_start(ev: Evaluator, b: Bound, start: Any, dtype: str) -> None:
    """An expression must have the reducer's type; numbers adopt it."""
    if isinstance(start, Expr) and dtypes.UNKNOWN not in (start.dtype, dtype) and start.dtype != dtype:
        ev.problem("reducer-op", f"the initial value is {start.dtype}, the reducer {dtype}; cast it", b.where("init"))


@api("reducer_update", "target value")
def reducer_update(ev: Evaluator, b: Bound) -> Any:
    target = to_region(b["target"], b.where("target"))
    if ev.builder is None:
        return None
    if target is None:
        regions(ev, b, "target")  # says that nothing is known about it
        return None
    emit(ev, b, "reducer_update", {"target": target, "value": _contribution(ev, b["value"], target.dtype)})
    return None


@api("finalize_reducer", "reducer dst= batch= annotations=")
def finalize_reducer(ev: Evaluator, b: Bound) -> Any:
    batch = plain(b["batch"])
    if isinstance(batch, int) and batch < 1:
        ev.problem("reduce-batch", f"batch is {batch}; it must be at least 1", b.where("batch"))
    found = regions(ev, b, "reducer") if b["dst"] is None else regions(ev, b, "reducer", "dst")
    if found is not None:
        emit(ev, b, "finalize_reducer", {"reducer": found[0], "dst": found[1] if len(found) > 1 else None, "batch": 1 if batch is None else batch})
    return None
