"""Whether a kernel is analysed: its tile program says everything its code does, with known tiles."""
from __future__ import annotations

from ..ir import dtypes
from ..ir.buffer import GLOBAL, Buffer
from ..ir.expr import Expr, Unknown, Var, walk
from ..ir.program import TileProgram
from ..ir.stmt import Alloc, Launch, Stmt, TileOp, expressions


def gap(program: TileProgram) -> str | None:
    """Why a tile program says less than its kernel, or None.

    Sizes that are known at run time only are no gap in tensors, grids, loops and indices; tiles and thread counts must be numbers.
    """
    if program.attrs.get("incomplete"):
        return f"no program: {program.attrs['incomplete']}"
    if program.attrs.get("unknown_params"):
        return "a parameter is not known"
    for parameter in program.params:
        found = _buffer_gap(parameter) if isinstance(parameter, Buffer) else None
        if found is not None:
            return found
    for s in program.statements():
        found = _statement_gap(s)
        if found is not None:
            return found
    return None


def _statement_gap(s: Stmt) -> str | None:
    if isinstance(s, TileOp) and s.op == "unsupported":
        return f"not modelled: {s.args['name']}"
    for expression in expressions(s):
        found = _unknown_in(expression)
        if found is not None:
            return found
    if isinstance(s, Alloc):
        return _buffer_gap(s.buffer)
    if isinstance(s, Launch) and any(_has_variable(t) for t in s.threads):
        return "thread count not known"
    return None


def _buffer_gap(buffer: Buffer) -> str | None:
    for extent in (*buffer.shape, *(buffer.strides or ())):
        found = _unknown_in(extent)
        if found is not None:
            return found
        if buffer.scope != GLOBAL and _has_variable(extent):
            return "tile size not known"
    return "dtype not known" if buffer.dtype == dtypes.UNKNOWN else None


def _unknown_in(expression: Expr) -> str | None:
    for e in walk(expression):
        if isinstance(e, Unknown):
            return f"unknown value: {e.reason}"
    return None


def _has_variable(expression: Expr) -> bool:
    return any(isinstance(e, Var) for e in walk(expression))
